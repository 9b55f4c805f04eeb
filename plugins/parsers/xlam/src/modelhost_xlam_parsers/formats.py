"""The format that xLAM models write."""

from __future__ import annotations

from modelhost.api.parsing import CallSyntax, JsonCalls

xlam = JsonCalls(
    array=True,
    bare="start",
    open=("[TOOL_CALLS]", "<tool_call>", "```json", "```"),
    close=("</tool_call>", "```"),
    strip=True,
    syntax=CallSyntax('[{"name": "NAME", "arguments": ARGUMENTS}]', single=True),
)
"""`[{"name": ..., "arguments": {...}}, ...]`, bare, in a code block or after a marker"""
