"""Calls in one of several notations that begin with the same marker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .call_syntax import CallSyntax
from .context import ParserContext, ParserFactory
from .engine import Engine, MarkedText
from .events import Event, Parser


@dataclass(frozen=True, kw_only=True)
class EitherCalls:
    """Format of calls in one of several notations: what follows the first marker says which.

    Attributes:
        marker: texts that begin a block of calls in all notations.
        begins: the notations by the character that they go on with, after white space.
        otherwise: the notation that goes on with any other character. It reads what stands before the first marker.
    """

    marker: tuple[str, ...]
    begins: Mapping[str, ParserFactory]
    otherwise: ParserFactory

    @property
    def syntax(self) -> CallSyntax | None:
        """A call as the models write it: in the notation `otherwise`."""
        return getattr(self.otherwise, "syntax", None)

    def __call__(self, context: ParserContext) -> EitherCallsParser:
        return EitherCallsParser(self, context)


class EitherCallsParser(Engine):
    """Parser of the format `EitherCalls`. All notations read the same text until one of them is chosen."""

    def __init__(self, form: EitherCalls, context: ParserContext) -> None:
        super().__init__()
        self._others: dict[str, Parser] = {character: other(context) for character, other in form.begins.items()}
        self._chosen = form.otherwise(context)
        self._decided = False
        self._marker = MarkedText(*form.marker)

    def feed(self, text: str, token_ids: Sequence[int] = ()) -> list[Event]:
        if self._decided:
            return self._chosen.feed(text, token_ids)
        return super().feed(text, token_ids)

    def start(self) -> bool:
        """Before the first marker."""
        text, marker = self._marker.read(self)
        self._pass_to_all(text + (marker or ""))
        if marker is None:
            return False
        self.state = self._choose
        return True

    def _choose(self) -> bool:
        self._pass_to_all(self.skip_space())
        if self.at == len(self.buffer):
            return False
        self._chosen = self._others.get(self.buffer[self.at], self._chosen)
        self._decided = True
        self._report(self._chosen.feed(self.rest()))
        return False

    def _pass_to_all(self, text: str) -> None:
        self._report(self._chosen.feed(text))
        for other in self._others.values():
            other.feed(text)

    def _report(self, events: list[Event]) -> None:
        self._events += events

    def close(self) -> None:
        self._report(self._chosen.finish())
