"""The formats that Llama models write."""

from __future__ import annotations

from modelhost.api.parsing import CallSyntax, JsonCalls, PythonicCalls

json_calls = JsonCalls(
    open=("<|python_tag|>",),
    bare="anywhere",
    arguments=("parameters", "arguments"),
    separators=";,",
    syntax=CallSyntax('{"name": "NAME", "parameters": ARGUMENTS}'),
)
"""`{"name": ..., "parameters": {...}}`, several separated by `; `, optionally after `<|python_tag|>`"""

pythonic = PythonicCalls(bare=True)
"""`[NAME(KEY=VALUE, ...), ...]`"""

llama4_pythonic = PythonicCalls(open=("<|python_start|>",), close=("<|python_end|>",), bare=True)
"""As `pythonic`, optionally within `<|python_start|>` and `<|python_end|>`"""
