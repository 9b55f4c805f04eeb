"""The format that GigaChat models write."""

from __future__ import annotations

from modelhost.api.parsing import CallSyntax, JsonCalls

gigachat3 = JsonCalls(
    open=(
        "<|message_sep|>\n\nfunction call<|role_sep|>\n",
        "function call<|role_sep|>\n",
        "<|function_call|>",
    ),
    close=("</s>",),
    syntax=CallSyntax('<|function_call|>{"name": "NAME", "arguments": ARGUMENTS}'),
)
"""`<|message_sep|>`, then `function call<|role_sep|>` and `{"name": ..., "arguments": {...}}`, or the marker alone"""
