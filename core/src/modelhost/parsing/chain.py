"""Puts the parsers of one output together."""

from __future__ import annotations

from collections.abc import Sequence

from .context import ParserContext, ParserFactory
from .events import Content, Event, Parser, Reasoning, merge


class PlainText:
    """A parser for which all text is content."""

    def feed(self, text: str, token_ids: Sequence[int] = ()) -> list[Event]:
        return [Content(text)] if text else []

    def finish(self) -> list[Event]:
        return []


class Chain:
    """Gives the content that one parser finds to another."""

    def __init__(self, first: Parser, second: Parser) -> None:
        self._first = first
        self._second = second

    def feed(self, text: str, token_ids: Sequence[int] = ()) -> list[Event]:
        return self._passed(self._first.feed(text, token_ids), token_ids)

    def finish(self) -> list[Event]:
        return merge([*self._passed(self._first.finish(), ()), *self._second.finish()])

    def _passed(self, events: list[Event], token_ids: Sequence[int]) -> list[Event]:
        result: list[Event] = []
        for event in events:
            if isinstance(event, Content):
                result += self._second.feed(event.text, token_ids)
            else:
                result.append(event)
        return result


class HideReasoning:
    """Leaves a parser's reasoning out."""

    def __init__(self, parser: Parser) -> None:
        self._parser = parser

    def feed(self, text: str, token_ids: Sequence[int] = ()) -> list[Event]:
        return [event for event in self._parser.feed(text, token_ids) if not isinstance(event, Reasoning)]

    def finish(self) -> list[Event]:
        return [event for event in self._parser.finish() if not isinstance(event, Reasoning)]


class AnswerFromReasoning:
    """Repeats the reasoning that a parser finds as the answer when the output ends without one."""

    def __init__(self, parser: Parser) -> None:
        self._parser = parser
        self._reasoning: list[str] = []
        self._answered = False

    def feed(self, text: str, token_ids: Sequence[int] = ()) -> list[Event]:
        return self._seen(self._parser.feed(text, token_ids))

    def finish(self) -> list[Event]:
        events = self._seen(self._parser.finish())
        if not self._answered and self._reasoning:
            events.append(Content("".join(self._reasoning)))
        return events

    def _seen(self, events: list[Event]) -> list[Event]:
        for event in events:
            if isinstance(event, Reasoning):
                self._reasoning.append(event.text)
            elif isinstance(event, Content):
                self._answered = True
        return events


def output_parser(
    context: ParserContext,
    *,
    reasoning: ParserFactory | None = None,
    tools: ParserFactory | None = None,
    include_reasoning: bool = True,
) -> Parser:
    """The parser of a whole output.

    Args:
        reasoning: the format of reasoning, if the model reasons.
        tools: the format of calls, if calls are to be found: leave it out for `tool_choice="none"`.
        include_reasoning: report reasoning; it is recognised either way.
    """
    parser: Parser
    if tools is not None and getattr(tools, "handles_reasoning", False):
        parser = tools(context)
    else:
        parser = tools(context) if tools is not None else PlainText()
        if reasoning is not None:
            parser = Chain(reasoning(context), parser)
    return parser if include_reasoning else HideReasoning(parser)
