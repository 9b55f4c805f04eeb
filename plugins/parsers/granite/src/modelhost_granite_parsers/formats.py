"""The formats that Granite models write."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from modelhost.api.parsing import AnswerFromReasoning, CallSyntax, JsonCalls, Parser, ParserContext, ReasoningTags

granite = JsonCalls(
    array=True,
    bare="start",
    open=("<|tool_call|>", "<tool_call>"),
    close=("</tool_call>",),
    syntax=CallSyntax('{"name": "NAME", "arguments": ARGUMENTS}', begin="<|tool_call|>[", separator=", ", end="]"),
)
"""`<|tool_call|>[{"name": ..., "arguments": {...}}, ...]`; an output that begins with the array needs no marker"""

granite4 = JsonCalls(
    open=("<tool_call>",),
    close=("</tool_call>",),
    syntax=CallSyntax('<tool_call>\n{"name": "NAME", "arguments": ARGUMENTS}\n</tool_call>'),
)
"""`<tool_call>{"name": ..., "arguments": {...}}</tool_call>`"""

granite_20b_fc = JsonCalls(
    open=("<function_call>",), syntax=CallSyntax('<function_call> {"name": "NAME", "arguments": ARGUMENTS}')
)
"""`<function_call> {"name": ..., "arguments": {...}}`"""

granite_reasoning = ReasoningTags(
    start=("Here is my thought process:", "Here's my thought process:"),
    end=("Here is my response:", "Here's my response:"),
    begins="content",
)


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
    strip_content="newlines",
)


def granite_thinking(context: ParserContext) -> Parser:
    """Reasoning in `<think>`; with the template option `force_nonempty_content` the answer if there is no other."""
    parser = _think(context)
    return AnswerFromReasoning(parser) if context.template_options.get("force_nonempty_content") else parser
