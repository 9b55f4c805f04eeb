"""The conformance kit on the formats of this package."""

from __future__ import annotations

from modelhost_lfm_parsers.formats import lfm2

from modelhost.testing.parser import Sample, check_parser


def test_lfm2() -> None:
    calls = "[f(a='x\\'\"', b=-1.5), g(), h(c=[True, None, {'k': (1, 2)}])]"
    check_parser(lfm2, [Sample(f"Hi <|tool_call_start|>{calls}<|tool_call_end|> bye")])
