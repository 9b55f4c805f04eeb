"""The formats that Granite models write."""

from __future__ import annotations

from modelhost.api.parsing import CallSyntax, JsonCalls, ReasoningTags

granite = JsonCalls(
    array=True,
    bare="start",
    open=("<|tool_call|>", "<tool_call>"),
    close=("</tool_call>",),
    syntax=CallSyntax('{"name": "NAME", "arguments": ARGUMENTS}', begin="<|tool_call|>[", separator=", ", end="]"),
)
"""`<|tool_call|>[{"name": ..., "arguments": {...}}, ...]`; an output that begins with the array needs no marker"""

granite4 = JsonCalls(
    open=("<tool_call>",),
    close=("</tool_call>",),
    syntax=CallSyntax('<tool_call>\n{"name": "NAME", "arguments": ARGUMENTS}\n</tool_call>'),
)
"""`<tool_call>{"name": ..., "arguments": {...}}</tool_call>`"""

granite_20b_fc = JsonCalls(
    open=("<function_call>",), syntax=CallSyntax('<function_call> {"name": "NAME", "arguments": ARGUMENTS}')
)
"""`<function_call> {"name": ..., "arguments": {...}}`"""

granite_reasoning = ReasoningTags(
    start=("Here is my thought process:", "Here's my thought process:"),
    end=("Here is my response:", "Here's my response:"),
    begins="content",
)
