"""The conformance kit on the formats of this package."""

from __future__ import annotations

import pytest
from modelhost_inkling_parsers.formats import inkling, inkling_reasoning

from modelhost.api.parsing import Call, Parsed, ParserContext, output_parser, parse
from modelhost.testing.parser import Sample, check_parser

THINKING = "<|message_model|><|content_thinking|>a < b<|end_message|>"
TEXT = "<|message_model|><|content_text|>Hi <|mess\n<|end_message|>"
CALL = '<|content_invoke_tool_json|>{"name": "f", "args": {"a": "x\\"}", "b": [1, {}]}}<|end_message|>'
OUTPUT = f"{THINKING}{TEXT}<|message_model|>f{CALL}<|content_model_end_sampling|>"
ARGUMENTS = '{"a": "x\\"}", "b": [1, {}]}'
HEADER = r"<\|message_model\|>f?<\|content_invoke_tool_json\|>"


def test_messages() -> None:
    check_parser(inkling, [Sample(OUTPUT, ignored=(HEADER,)), Sample("Hi <|message_model|>you")])
    check_parser(inkling_reasoning, [Sample(OUTPUT, ignored=(HEADER,))])


def test_the_name_before_a_call_is_markup() -> None:
    expected = Parsed("a < b", "Hi <|mess\n", (Call("f", ARGUMENTS),))
    assert parse(inkling(ParserContext()), OUTPUT) == expected


@pytest.mark.parametrize("text", [f"f{CALL}", CALL])
def test_the_first_message_may_begin_in_the_prompt(text: str) -> None:
    context = ParserContext(prompt="<|message_model|>")
    assert parse(inkling(context), text) == Parsed("", "", (Call("f", ARGUMENTS),))


def test_text_after_a_message_marker_without_a_kind_is_content() -> None:
    assert parse(inkling(ParserContext()), "<|message_model|>Hi<|end_message|>").content == "Hi"


def test_calls_are_text_when_they_are_not_looked_for() -> None:
    parser = output_parser(ParserContext(), reasoning=inkling_reasoning)
    assert parse(parser, OUTPUT) == Parsed("a < b", f"Hi <|mess\n{CALL.removesuffix('<|end_message|>')}", ())
