"""The format that dots models write."""

from __future__ import annotations

from modelhost.api.parsing import CallSyntax, EitherCalls, JsonCalls, Tag, TaggedCalls

_OPEN, _CLOSE = ("<dots_function_call>",), ("</dots_function_call>",)
_NAME = r"""\s*name\s*=\s*(?P<quote>["']?)(?P<name>[^"'<>]+)(?P=quote)"""

tagged_calls = TaggedCalls(
    open=_OPEN,
    close=_CLOSE,
    call=Tag("<invoke", header=_NAME),
    call_end=("</invoke>",),
    parameter=Tag("<parameter", header=_NAME),
    parameter_end=("</parameter>",),
    trim="space",
    known_tools_only=True,
    strip=True,
    syntax=CallSyntax(
        '<invoke name="NAME">\nARGUMENTS\n</invoke>\n', begin=f"{_OPEN[0]}\n", end=_CLOSE[0], arguments="minimax_xml"
    ),
)

dots = EitherCalls(
    marker=_OPEN,
    begins={"{": JsonCalls(open=_OPEN, close=_CLOSE, arguments=("arguments", "parameters"), strip=True)},
    otherwise=tagged_calls,
)
"""`<invoke name="NAME"><parameter name="KEY">VALUE</parameter></invoke>`, or `{"name": ..., "arguments": {...}}`, in
`<dots_function_call>`"""
