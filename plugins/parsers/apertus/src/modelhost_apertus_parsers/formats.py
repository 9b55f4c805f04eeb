"""The format that Apertus models write."""

from __future__ import annotations

from modelhost.api.parsing import CallSyntax, JsonCalls

apertus = JsonCalls(
    array=True,
    name_is_key=True,
    open=("<|tools_prefix|>",),
    close=("<|tools_suffix|>",),
    strip=True,
    syntax=CallSyntax('{"NAME": ARGUMENTS}', begin="<|tools_prefix|>[", separator=", ", end="]<|tools_suffix|>"),
)
"""`<|tools_prefix|>[{"NAME": {arguments}}, ...]<|tools_suffix|>`"""
