"""The formats that Cohere's Command models write."""

from __future__ import annotations

from modelhost.api.parsing import Block, Blocks, CallSyntax, JsonCalls, ReasoningTags

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
_SYNTAX = CallSyntax(
    '{"tool_call_id": "0", "tool_name": "NAME", "parameters": ARGUMENTS}',
    begin=f"{_ACTION}[\n    ",
    end="\n]<|END_ACTION|>",
    single=True,
)

_with_calls = (_thinking, Block(open=(*_ANSWER, "<|END_ACTION|>"), holds=Citations), _action)
_without_calls = (_thinking, Block(open=_ANSWER, holds=Citations), Block(open=(_ACTION,), holds="marked content"))

cohere_command3 = Blocks(blocks=_with_calls, begins=1, syntax=_SYNTAX)
"""Blocks of thinking, of text and of `[{"tool_call_id": ..., "tool_name": ..., "parameters": {...}}, ...]`"""

cohere_command3_reasoning = Blocks(blocks=_without_calls, begins=1)
"""The same blocks; calls are text"""

cohere_command4 = Blocks(blocks=_with_calls, begins=0, syntax=_SYNTAX)
"""The same blocks; the output begins with thinking"""

cohere_command4_reasoning = Blocks(blocks=_without_calls, begins=0)
"""The same blocks; calls are text, and the output begins with thinking"""
