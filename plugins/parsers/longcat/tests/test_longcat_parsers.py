"""The conformance kit on the formats of this package."""

from __future__ import annotations

from modelhost_longcat_parsers.formats import longcat

from modelhost.testing.parser import Sample, check_parser


def test_longcat() -> None:
    arguments = '{"a": "x\\"</longcat_tool_call>", "b": [1]}'
    call = f'<longcat_tool_call>\n{{"name": "f", "arguments": {arguments}}}\n</longcat_tool_call>'
    check_parser(longcat, [Sample(f"Hi {call}{call} bye"), Sample("a < b <longcat_tool_call> c")])
