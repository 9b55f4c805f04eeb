"""The conformance kit on the formats of this package."""

from __future__ import annotations

from modelhost_qwen_parsers.formats import hermes, qwen3, qwen3_coder

from modelhost.testing.parser import Sample, check_parser

TEXT = "Let me see.\n"


def test_hermes() -> None:
    call = '<tool_call>\n{"name": "f", "arguments": {"a": "x\\"</tool_call>", "b": [1, {}]}}\n</tool_call>'
    check_parser(hermes, [Sample(TEXT + call + call), Sample("a < b <tool_call> c")])


def test_qwen3_coder() -> None:
    call = "<tool_call>\n<function=f>\n<parameter=a>\nx < y\n\n</parameter>\n</function>\n</tool_call>"
    check_parser(qwen3_coder, [Sample(TEXT + call + "\n" + call + "\nDone.")])


def test_qwen3() -> None:
    check_parser(qwen3, [Sample("<think>a < b</think>\n\nDone."), Sample("no end")])
