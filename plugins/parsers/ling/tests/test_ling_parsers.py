"""The conformance kit on the formats of this package."""

from __future__ import annotations

from typing import Any

import pytest
from modelhost_ling_parsers.formats import ling3, ling3_reasoning

from modelhost.api.parsing import Call, Parsed, ParserContext, parse
from modelhost.testing.parser import Sample, check_parser

TOOLS = [{"type": "function", "function": {"name": "f", "parameters": {"properties": {"a": {"type": "string"}}}}}]
CONTEXT = ParserContext(tools=TOOLS)
CALL = "<tool_call>f<arg_key>a</arg_key><arg_value>x < y</arg_value></tool_call>"


def test_ling3() -> None:
    text = f"Hi\n{CALL}\n{CALL}\nbye"
    call = Call("f", '{"a": "x < y"}')
    check_parser(ling3, [Sample(text, CONTEXT, parsed=Parsed("", "Hi\nbye", (call, call)))])


def test_reasoning_ends_with_a_call() -> None:
    check_parser(ling3_reasoning, [Sample("<think>a < b</think>\nc"), Sample(f"a {CALL}")])


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, Parsed("a", "b", ())),
        ({"thinking": False}, Parsed("", "a</think>b", ())),
        ({"thinking": False, "enable_thinking": True}, Parsed("a", "b", ())),
    ],
)
def test_options_of_the_chat_template(options: dict[str, Any], expected: Parsed) -> None:
    assert parse(ling3_reasoning(ParserContext(template_options=options)), "a</think>b") == expected
