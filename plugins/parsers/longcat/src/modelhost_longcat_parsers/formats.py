"""The format that LongCat models write."""

from __future__ import annotations

from modelhost.api.parsing import CallSyntax, JsonCalls

longcat = JsonCalls(
    open=("<longcat_tool_call>",),
    close=("</longcat_tool_call>",),
    syntax=CallSyntax('<longcat_tool_call>\n{"name": "NAME", "arguments": ARGUMENTS}\n</longcat_tool_call>'),
)
"""`<longcat_tool_call>{"name": ..., "arguments": {...}}</longcat_tool_call>`"""
