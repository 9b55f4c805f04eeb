"""The formats that Seed-OSS models write."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from modelhost.api.parsing import CallSyntax, ReasoningTags, Tag, TaggedCalls

seed_oss = TaggedCalls(
    open=("<seed:tool_call>",),
    close=("</seed:tool_call>",),
    call=Tag("<function="),
    call_end=("</function>",),
    parameter=Tag("<parameter="),
    parameter_end=("</parameter>",),
    implicit_end=("<parameter=", "</function>"),
    trim="newline",
    strip=True,
    syntax=CallSyntax(
        "<seed:tool_call>\n<function=NAME>\nARGUMENTS\n</function>\n</seed:tool_call>", arguments="qwen_xml"
    ),
)
"""`<seed:tool_call><function=NAME><parameter=KEY>VALUE</parameter></function></seed:tool_call>`"""


def thinking_disabled(options: Mapping[str, Any]) -> bool | None:
    """The output begins with reasoning unless `enable_thinking` is false."""
    return False if options.get("enable_thinking") is False else None


seed_oss_reasoning = ReasoningTags(
    start=("<seed:think>",),
    end=("</seed:think>",),
    also_ended_by=("<seed:tool_call>",),
    switch=thinking_disabled,
    drop_stray=True,
)
