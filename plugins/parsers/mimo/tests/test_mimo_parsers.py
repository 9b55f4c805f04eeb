"""The conformance kit on the formats of this package."""

from __future__ import annotations

from modelhost_mimo_parsers.formats import mimo, mimo_reasoning

from modelhost.testing.parser import Sample, check_parser


def test_mimo() -> None:
    call = "<tool_call>\n<function=f>\n<parameter=a>\nx < y\n\n</parameter>\n</function>\n</tool_call>"
    check_parser(mimo, [Sample("Let me see.\n" + call + "\n" + call + "\nDone.")])


def test_mimo_reasoning() -> None:
    check_parser(mimo_reasoning, [Sample("<think>a < b</think>\n\nDone."), Sample("no end")])
