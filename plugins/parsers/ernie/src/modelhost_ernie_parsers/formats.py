"""The formats that ERNIE models write."""

from __future__ import annotations

from modelhost.api.parsing import CallSyntax, JsonCalls, ReasoningTags

ernie45 = JsonCalls(
    open=("<tool_call>",),
    close=("</tool_call>",),
    strip=True,
    syntax=CallSyntax('<tool_call>\n{"name": "NAME", "arguments": ARGUMENTS}\n</tool_call>'),
)
"""`<tool_call>{"name": ..., "arguments": {...}}</tool_call>`"""

ernie45_reasoning = ReasoningTags(
    start=("<think>",),
    end=("</think>",),
    around_answer=("\n\n<response>", "\n<response>", "<response>", "</response>\n", "</response>"),
)
"""`<think>...</think>`, then the answer, optionally within `<response>...</response>`"""
