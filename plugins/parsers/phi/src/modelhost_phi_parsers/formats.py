"""The format that Phi models write."""

from __future__ import annotations

from modelhost.api.parsing import CallSyntax, JsonCalls

phi4_mini_json = JsonCalls(
    array=True,
    open=("functools",),
    arguments=("arguments", "parameters"),
    syntax=CallSyntax('{"name": "NAME", "arguments": ARGUMENTS}', begin="functools[", separator=", ", end="]"),
)
"""`functools[{"name": ..., "arguments": {...}}, ...]`"""
