"""The formats that Cohere's Command models write."""

from __future__ import annotations

from collections.abc import Sequence

from modelhost.api.parsing import Block, Blocks, Event, JsonCalls, ParserContext, PlainText, ReasoningTags

from .citations import Citations

_ACTION = "<|START_ACTION|>"

_thinking = Block(
    open=("<|START_THINKING|>",),
    holds=ReasoningTags(start=(), end=(), strip_reasoning="space", strip_reasoning_start="space"),
)
_ANSWER = (
    "<|START_RESPONSE|>",
    "<|END_RESPONSE|>",
    "<|START_TEXT|>",
    "<|END_TEXT|>",
    "<|END_THINKING|>",
)  # what stands outside all blocks is text of the answer
_action = Block(
    open=(_ACTION,),
    holds=JsonCalls(array=True, bare="start", name=("tool_name",), arguments=("parameters",), id=("tool_call_id",)),
)


class UnreadAction(PlainText):
    """Parser of an action when calls are not looked for: it is text."""

    def __init__(self, context: ParserContext) -> None:
        self._before = _ACTION

    def feed(self, text: str, token_ids: Sequence[int] = ()) -> list[Event]:
        before, self._before = self._before, ""
        return super().feed(before + text)

    def finish(self) -> list[Event]:
        return self.feed("")


_with_calls = (_thinking, Block(open=(*_ANSWER, "<|END_ACTION|>"), holds=Citations), _action)
_without_calls = (_thinking, Block(open=_ANSWER, holds=Citations), Block(open=(_ACTION,), holds=UnreadAction))

cohere_command3 = Blocks(blocks=_with_calls, begins=1)
"""Blocks of thinking, of text and of `[{"tool_call_id": ..., "tool_name": ..., "parameters": {...}}, ...]`"""

cohere_command3_reasoning = Blocks(blocks=_without_calls, begins=1)

cohere_command4 = Blocks(blocks=_with_calls, begins=0)
"""The same blocks; the output begins with thinking"""

cohere_command4_reasoning = Blocks(blocks=_without_calls, begins=0)
