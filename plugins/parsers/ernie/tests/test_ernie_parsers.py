"""The conformance kit on the formats of this package."""

from __future__ import annotations

from modelhost_ernie_parsers.formats import ernie45, ernie45_reasoning

from modelhost.testing.parser import Sample, check_parser


def test_ernie45() -> None:
    call = '<tool_call>\n{"name": "f", "arguments": {"a": "x\\"}", "b": [1]}}\n</tool_call>\n'
    check_parser(ernie45, [Sample(f"Hi\n{call}\n{call}\nbye")])


def test_reasoning() -> None:
    answer = "\n\n<response>\nHello\n\n</response>\n"
    check_parser(ernie45_reasoning, [Sample(f"<think>\na\n</think>{answer}"), Sample("a\n</think>\n\nb\n\nc")])
