"""The format that Jamba models write."""

from __future__ import annotations

from modelhost.api.parsing import CallSyntax, JsonCalls

jamba = JsonCalls(
    open=("<tool_calls>",),
    close=("</tool_calls>",),
    array=True,
    syntax=CallSyntax(
        '{"name": "NAME", "arguments": ARGUMENTS}', begin="<tool_calls>[", separator=", ", end="]</tool_calls>"
    ),
)
"""`<tool_calls>[{"name": ..., "arguments": {...}}, ...]</tool_calls>`"""
