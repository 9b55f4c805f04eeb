"""The conformance kit on the formats of this package."""

from __future__ import annotations

from modelhost_olmo_parsers.formats import olmo3, olmo3_reasoning

from modelhost.testing.parser import Sample, check_parser


def test_olmo3() -> None:
    calls = "f(a='x\\'\"', b=-1.5)\ng()\nh(c=[True, None, {'k': (1, 2)}])"
    check_parser(olmo3, [Sample(f"Hi <function_calls>{calls}</function_calls> bye")])


def test_olmo3_reasoning() -> None:
    check_parser(olmo3_reasoning, [Sample("<think>a < b</think>\n\nDone."), Sample("no end")])
