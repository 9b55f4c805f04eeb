"""What a parser of generated text reports, and the result that the reports add up to."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Content:
    """Text of the answer."""

    text: str


@dataclass(frozen=True, slots=True)
class Reasoning:
    """Text of the reasoning that precedes the answer."""

    text: str


@dataclass(frozen=True, slots=True)
class CallStart:
    """A call of a tool begins. `id` is the one that the model wrote; None where the format has none."""

    index: int
    name: str
    id: str | None = None


@dataclass(frozen=True, slots=True)
class CallArguments:
    """The next piece of the JSON text of a call's arguments."""

    index: int
    text: str


@dataclass(frozen=True, slots=True)
class CallEnd:
    """A call has all its arguments, or the output ended within them: their text is then not complete JSON."""

    index: int


Event = Content | Reasoning | CallStart | CallArguments | CallEnd


class Parser(Protocol):
    """An incremental parser. The events of any division of a text into pieces add up to the same result."""

    def feed(self, text: str, token_ids: Sequence[int] = ()) -> list[Event]:
        """Events that are certain once `text` has followed what was fed before.

        Args:
            text: the next piece of the output; it may be empty.
            token_ids: the tokens that the piece was decoded from, if known. Feed token by token where a format tells
                a marker from the same characters in ordinary tokens.
        """
        ...

    def finish(self) -> list[Event]:
        """The remaining events. Call it once, after the last piece."""
        ...


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a tool. `arguments` is JSON text."""

    name: str
    arguments: str
    id: str | None = None


@dataclass(frozen=True, slots=True)
class Parsed:
    """A whole output: its reasoning, its answer and its calls. Absent texts are empty."""

    reasoning: str
    content: str
    calls: tuple[Call, ...]


def collect(events: Iterable[Event]) -> Parsed:
    """The result that events add up to."""
    reasoning: list[str] = []
    content: list[str] = []
    starts: list[CallStart] = []
    arguments: dict[int, list[str]] = {}
    for event in events:
        match event:
            case Content(text):
                content.append(text)
            case Reasoning(text):
                reasoning.append(text)
            case CallStart():
                starts.append(event)
                arguments[event.index] = []
            case CallArguments(index, text):
                arguments[index].append(text)
    calls = tuple(Call(start.name, "".join(arguments[start.index]), start.id) for start in starts)
    return Parsed("".join(reasoning), "".join(content), calls)


def parse(parser: Parser, text: str, token_ids: Sequence[int] = ()) -> Parsed:
    """The result of a whole output: `parser` fed once."""
    return collect([*parser.feed(text, token_ids), *parser.finish()])


def merge(events: list[Event]) -> list[Event]:
    """The same events with neighbouring texts of one kind joined."""
    merged: list[Event] = []
    for event in events:
        last = merged[-1] if merged else None
        match last, event:
            case Content(before), Content(text):
                merged[-1] = Content(before + text)
            case Reasoning(before), Reasoning(text):
                merged[-1] = Reasoning(before + text)
            case CallArguments(index, before), CallArguments(same, text) if index == same:
                merged[-1] = CallArguments(index, before + text)
            case _:
                merged.append(event)
    return merged
