"""The conformance kit on the formats of this package."""

from __future__ import annotations

from modelhost_phi_parsers.formats import phi4_mini_json

from modelhost.testing.parser import Sample, check_parser


def test_phi4_mini_json() -> None:
    call = 'functools[{"name": "f", "arguments": {"a": "x\\"]", "b": [1]}}, {"name": "g", "parameters": {}}]'
    check_parser(phi4_mini_json, [Sample(f"Hi {call}{call} bye"), Sample("functools are [1]")])
