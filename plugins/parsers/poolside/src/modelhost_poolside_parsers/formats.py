"""The formats that Poolside models write."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from modelhost.api.parsing import CallSyntax, ReasoningTags, Tag, TaggedCalls

poolside_v1 = TaggedCalls(
    call=Tag("<tool_call>", end=("\n",), before=("<arg_key>", "</tool_call>")),
    call_end=("</tool_call>",),
    parameter=Tag("<arg_key>", end=("</arg_key>",)),
    value="<arg_value>",
    parameter_end=("</arg_value>",),
    syntax=CallSyntax("<tool_call>NAME\nARGUMENTS\n</tool_call>", arguments="glm_xml"),
)
"""`<tool_call>NAME<arg_key>KEY</arg_key><arg_value>VALUE</arg_value></tool_call>`, with newlines between or without"""


def thinking(options: Mapping[str, Any]) -> bool:
    """Poolside's chat templates reason only when asked to."""
    return bool(options.get("thinking") or options.get("enable_thinking"))


poolside_v1_reasoning = ReasoningTags(start=("<think>",), end=("</think>",), switch=thinking)
