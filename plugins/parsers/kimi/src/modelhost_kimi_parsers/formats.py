"""The formats that Kimi models write."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from modelhost.api.parsing import HeaderCalls, ReasoningTags

_SECTION = ("<|tool_calls_section_begin|>",)

kimi_k2 = HeaderCalls(
    open=_SECTION,
    close=("<|tool_calls_section_end|>",),
    call=("<|tool_call_begin|>",),
    header=r"(?P<id>(?:functions\.)?(?P<name>[^\s:]+):\d+)",
    arguments=("<|tool_call_argument_begin|>",),
    end=("<|tool_call_end|>",),
)
"""`<|tool_call_begin|>functions.NAME:INDEX<|tool_call_argument_begin|>{arguments}<|tool_call_end|>`"""


def thinking_disabled(options: Mapping[str, Any]) -> bool | None:
    """Kimi's models reason unless `thinking` or `enable_thinking` is false."""
    return False if False in (options.get("thinking"), options.get("enable_thinking")) else None


kimi_k2_reasoning = ReasoningTags(
    start=("<think>",),
    end=("</think>",),
    also_ended_by=_SECTION,
    switch=thinking_disabled,
    drop_stray=True,
    strip_reasoning="space",
)
