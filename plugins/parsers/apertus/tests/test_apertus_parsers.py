"""The conformance kit on the formats of this package."""

from __future__ import annotations

from modelhost_apertus_parsers.formats import apertus

from modelhost.testing.parser import Sample, check_parser


def test_apertus() -> None:
    call = '<|tools_prefix|>[{"f": {"a": "x\\"]", "b": [1]}}, {"g": {}}]<|tools_suffix|>'
    check_parser(apertus, [Sample(f"Hi {call}{call} bye"), Sample("a <|tools_prefix|> b")])
