"""The conformance kit on the format of this package."""

from __future__ import annotations

from modelhost_jamba_parsers.formats import jamba

from modelhost.testing.parser import Sample, check_parser


def test_jamba() -> None:
    call = '{"name": "f", "arguments": {"a": "x\\"]", "b": [1, {}]}}'
    check_parser(
        jamba, [Sample(f"Hi <tool_calls>[\n  {call},\n  {call}\n]</tool_calls> bye"), Sample("<tool_calls>[]")]
    )
