"""The conformance kit on the formats of this package."""

from __future__ import annotations

from modelhost_granite_parsers.formats import granite, granite4, granite_20b_fc, granite_reasoning

from modelhost.testing.parser import Sample, check_parser

CALL = '{"name": "f", "arguments": {"a": "x\\"}]", "b": [1, {}]}}'


def test_granite() -> None:
    check_parser(granite, [Sample(f"<|tool_call|>[{CALL}, {CALL}]"), Sample(f"[{CALL}]"), Sample("[1] and [2]")])


def test_granite4() -> None:
    call = f"<tool_call>\n{CALL}\n</tool_call>"
    check_parser(granite4, [Sample(f"Hi\n{call}\nand\n{call}\nbye")])


def test_granite_20b_fc() -> None:
    check_parser(granite_20b_fc, [Sample(f"<function_call> {CALL}\n<function_call> {CALL}")])


def test_reasoning() -> None:
    text = "Here's my thought process: I see. Here is my thought. Here is my response: Here is my answer."
    check_parser(granite_reasoning, [Sample(text), Sample("Here is my answer.")])
