"""The formats that MiniCPM models write."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from modelhost.api.parsing import CallSyntax, ReasoningTags, Tag, TaggedCalls

minicpm5 = TaggedCalls(
    call=Tag("<function", header=r'\s*name="(?P<name>[^"]+)"'),
    call_end=("</function>",),
    parameter=Tag("<param", end=(">", "><![CDATA["), header=r'\s*name="(?P<name>[^"]+)"'),
    parameter_end=("</param>", "]]></param>"),
    known_tools_only=True,
    syntax=CallSyntax('<function name="NAME">ARGUMENTS</function>', arguments=None),
)
"""`<function name="NAME"><param name="KEY">VALUE</param></function>`; a value may be a CDATA section"""


def thinking(options: Mapping[str, Any]) -> bool | None:
    """MiniCPM-V's chat templates begin with reasoning when `enable_thinking` is true."""
    return True if options.get("enable_thinking") else None


minicpmv_reasoning = ReasoningTags(
    start=("<think>",),
    end=("</think>",),
    begins="content",
    also_ended_by=("<tool_call>",),
    switch=thinking,
    drop_stray=True,
    around_answer=("<|im_end|>",),
)
