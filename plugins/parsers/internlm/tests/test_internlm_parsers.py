"""The conformance kit on the formats of this package."""

from __future__ import annotations

from modelhost_internlm_parsers.formats import internlm

from modelhost.testing.parser import Sample, check_parser


def test_internlm() -> None:
    call = '<|action_start|><|plugin|>\n{"name": "f", "parameters": {"a": "x\\"}", "b": [1]}}<|action_end|>'
    check_parser(internlm, [Sample(f"Hi {call}{call} bye"), Sample("a <|action_start|> b")])
