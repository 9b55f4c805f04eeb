"""The conformance kit on the formats of this package."""

from __future__ import annotations

import pytest
from modelhost_cohere_parsers.citations import Citations
from modelhost_cohere_parsers.formats import (
    cohere_command3,
    cohere_command3_reasoning,
    cohere_command4,
    cohere_command4_reasoning,
)

from modelhost.api.parsing import Parsed, ParserContext, ParserFactory, output_parser, parse
from modelhost.testing.parser import Sample, check_parser

CALL = '{"tool_call_id": "0", "tool_name": "f", "parameters": {"a": "x\\"]", "b": [1, {}]}}'
ACTION = f"<|START_ACTION|>[\n    {CALL},\n    {CALL}\n]<|END_ACTION|>"
TEXT = f"<|START_THINKING|>a < b<|END_THINKING|><|START_TEXT|>Hi, you.<|END_TEXT|>{ACTION}"
FORMATS = (cohere_command3, cohere_command3_reasoning, cohere_command4, cohere_command4_reasoning)


@pytest.mark.parametrize("form", FORMATS)
def test_blocks(form: ParserFactory) -> None:
    check_parser(form, [Sample(TEXT), Sample("a < b <|START")])


@pytest.mark.parametrize("form", [cohere_command3_reasoning, cohere_command4_reasoning])
def test_actions_are_text_when_calls_are_not_looked_for(form: ParserFactory) -> None:
    parser = output_parser(ParserContext(), reasoning=form)
    assert parse(parser, TEXT) == Parsed("a < b", f"Hi, you.{ACTION}", ())


@pytest.mark.parametrize(
    ("text", "content"),
    [
        ("a <co>b</co: 0:[0]> c", "a b c"),
        ("<co: 0>b</co: 0:[1,2],1:[0]>.", "b."),
        ("a <co>b</co: 0:[", "a b</co: 0:["),
        ("a </co: x> <co", "a </co: x> <co"),
        ("a \n\nb\n", "a \n\nb"),
    ],
)
def test_citations(text: str, content: str) -> None:
    assert parse(Citations(ParserContext()), text).content == content
    check_parser(Citations, [Sample(text)])
