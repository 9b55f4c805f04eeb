"""The format that InternLM models write."""

from __future__ import annotations

from modelhost.api.parsing import CallSyntax, JsonCalls

internlm = JsonCalls(
    open=("<|action_start|><|plugin|>",),
    close=("<|action_end|>",),
    arguments=("parameters", "arguments"),
    syntax=CallSyntax('<|action_start|><|plugin|>\n{"name": "NAME", "parameters": ARGUMENTS}<|action_end|>'),
)
"""`<|action_start|><|plugin|>{"name": ..., "parameters": {...}}<|action_end|>`"""
