"""The conformance kit on the formats of this package."""

from __future__ import annotations

from modelhost_xlam_parsers.formats import xlam

from modelhost.testing.parser import Sample, check_parser


def test_xlam() -> None:
    call = '<tool_call>[{"name": "f", "arguments": {"a": "x\\"]", "b": [1]}}]</tool_call>'
    check_parser(
        xlam,
        [
            Sample(f"Hi {call}{call} bye"),
            Sample('[{"name": "f", "arguments": {}}] bye'),
            Sample('```json\n[{"name": "f", "arguments": {}}]\n```'),
        ],
    )
