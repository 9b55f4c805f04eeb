"""The format of the reasoning of Nemotron models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from modelhost.api.parsing import Content, Event, Parser, ParserContext, Reasoning, ReasoningTags


def thinking_disabled(options: Mapping[str, Any]) -> bool | None:
    """The output begins with reasoning unless `enable_thinking` is false."""
    return False if options.get("enable_thinking") is False else None


_think = ReasoningTags(
    start=("<think>",),
    end=("</think>",),
    also_ended_by=("<tool_call>",),
    switch=thinking_disabled,
    drop_stray=True,
    strip_reasoning="space",
)


def nemotron_v3(context: ParserContext) -> Parser:
    """Reasoning in `<think>`; with the template option `force_nonempty_content` the answer if there is no other."""
    parser = _think(context)
    return AnswerFromReasoning(parser) if context.template_options.get("force_nonempty_content") else parser


class AnswerFromReasoning:
    """Repeats the reasoning as the answer when the output ends without one."""

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
