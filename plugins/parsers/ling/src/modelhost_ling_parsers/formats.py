"""The formats that Ling models write."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from modelhost.api.parsing import CallSyntax, ReasoningTags, Tag, TaggedCalls

ling3 = TaggedCalls(
    call=Tag("<tool_call>", end=("\n",), before=("<arg_key>", "</tool_call>")),
    call_end=("</tool_call>",),
    parameter=Tag("<arg_key>", end=("</arg_key>",)),
    value="<arg_value>",
    parameter_end=("</arg_value>",),
    known_tools_only=True,
    strip=True,
    syntax=CallSyntax("<tool_call>NAME\nARGUMENTS\n</tool_call>", arguments="glm_xml"),
)
"""`<tool_call>NAME<arg_key>KEY</arg_key><arg_value>VALUE</arg_value></tool_call>`, with newlines between or without"""


def thinking(options: Mapping[str, Any]) -> bool | None:
    """The output begins with reasoning unless of `enable_thinking` and `thinking` those that are set are false."""
    stated = [options[name] for name in ("enable_thinking", "thinking") if options.get(name) is not None]
    return None if any(stated) or not stated else False


ling3_reasoning = ReasoningTags(
    start=("<think>",),
    end=("</think>",),
    also_ended_by=("<tool_call>",),
    switch=thinking,
    drop_stray=True,
    strip_reasoning="space",
)
