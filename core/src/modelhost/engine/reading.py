"""Reads reasoning, content and tool calls out of an answer's text as it grows."""

from __future__ import annotations

import uuid
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from modelhost.api import PluginError
from modelhost.parsing.events import CallArguments, CallEnd, CallStart, Content, Event, Parser, Reasoning

from .outputs import CompletionOutput, FinishReason, FunctionCall, ToolCall

__all__ = ["OutputReader", "TokenPlaces", "random_call_id"]


def random_call_id(index: int) -> str:
    """An id such as OpenAI's."""
    return f"call_{uuid.uuid4().hex[:24]}"


@dataclass
class OutputReader:
    """Keeps the parsed fields of one answer.

    Attributes:
        parser: of the whole output; used for this answer only.
        owner: of the parser, as messages name it.
        calls: which calls are reported. Those that were not asked for are in the text only.
        tells_calls: a call makes ``"stop"`` into ``"tool_calls"``.
        opening: text that the prompt ends with and that belongs to the output.
        new_call_id: makes the id of a call where the model wrote none.
    """

    parser: Parser
    owner: str
    calls: Literal["all", "first", "none"] = "all"
    tells_calls: bool = True
    opening: str = ""
    new_call_id: Callable[[int], str] = random_call_id

    def feed(self, output: CompletionOutput, text: str, token_ids: Sequence[int]) -> None:
        """Take the next text and the tokens that it was made of.

        Raises:
            PluginError: the parser failed, which no text may make it do.
        """
        try:
            events = self._opened()
            events += self.parser.feed(text, token_ids)
        except Exception as error:
            raise self._failed(error) from error
        self._apply(output, events)

    def finish(self, output: CompletionOutput, reason: FinishReason) -> FinishReason:
        """Take what the parser held back.

        Returns:
            the finish reason to report.

        Raises:
            PluginError: as :meth:`feed`.
        """
        try:
            events = [*self._opened(), *self.parser.finish()]
        except Exception as error:
            raise self._failed(error) from error
        self._apply(output, events)
        return "tool_calls" if reason == "stop" and self.tells_calls and output.tool_calls else reason

    def _opened(self) -> list[Event]:
        opening, self.opening = self.opening, ""
        return list(self.parser.feed(opening)) if opening else []

    def _failed(self, error: Exception) -> PluginError:
        return PluginError(
            f"{self.owner} failed on this output: {type(error).__name__}: {error}. This is a defect of the parser; "
            "to go on without it, use --tool-call-parser none or --reasoning-parser none"
        )

    def _apply(self, output: CompletionOutput, events: Iterable[Event]) -> None:
        for event in events:
            match event:
                case Content(text):
                    output.content = (output.content or "") + text
                case Reasoning(text):
                    output.reasoning = (output.reasoning or "") + text
                case CallStart() | CallArguments() | CallEnd():
                    if self.calls == "none" or (self.calls == "first" and event.index > 0):
                        continue
                    event = self._called(output, event)
            output.events.append(event)

    def _called(self, output: CompletionOutput, event: CallStart | CallArguments | CallEnd) -> Event:
        if isinstance(event, CallStart):
            event = replace(event, id=event.id or self.new_call_id(event.index))
            output.tool_calls.append(ToolCall(event.id or "", FunctionCall(event.name, "")))
        elif isinstance(event, CallArguments):
            call = output.tool_calls[event.index]
            function = FunctionCall(call.function.name, call.function.arguments + event.text)
            output.tool_calls[event.index] = replace(call, function=function)
        return event


class TokenPlaces:
    """Which tokens made which text, where some of the text is held back."""

    def __init__(self) -> None:
        self._without_text: list[int] = []
        self._ends: deque[tuple[int, list[int]]] = deque()
        self._length = 0

    def push(self, token_id: int, text: str) -> None:
        """A token made ``text``, together with those before it that made none."""
        self._without_text.append(token_id)
        if text:
            self._length += len(text)
            self._ends.append((self._length, self._without_text))
            self._without_text = []

    def take(self, shown: int) -> list[int]:
        """The tokens whose text is among the first ``shown`` characters, each once."""
        taken: list[int] = []
        while self._ends and self._ends[0][0] <= shown:
            taken += self._ends.popleft()[1]
        return taken
