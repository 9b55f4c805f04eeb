"""The formats that MiMo models write."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from modelhost.api.parsing import CallSyntax, ReasoningTags, Tag, TaggedCalls

mimo = TaggedCalls(
    open=("<tool_call>",),
    close=("</tool_call>",),
    call=Tag("<function="),
    call_end=("</function>",),
    parameter=Tag("<parameter="),
    parameter_end=("</parameter>",),
    implicit_end=("<parameter=", "</function>"),
    trim="newline",
    strip=True,
    syntax=CallSyntax("<tool_call>\n<function=NAME>\nARGUMENTS\n</function>\n</tool_call>", arguments="qwen_xml"),
)
"""`<tool_call><function=NAME><parameter=KEY>VALUE</parameter></function></tool_call>`"""


def thinking_disabled(options: Mapping[str, Any]) -> bool | None:
    """MiMo's chat templates begin with reasoning unless `enable_thinking` is false."""
    return False if options.get("enable_thinking") is False else None


mimo_reasoning = ReasoningTags(
    start=("<think>",),
    end=("</think>",),
    also_ended_by=("<tool_call>",),
    switch=thinking_disabled,
    drop_stray=True,
)
