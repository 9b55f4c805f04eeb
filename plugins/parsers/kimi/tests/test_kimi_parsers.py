"""The conformance kit on the formats of this package."""

from __future__ import annotations

from modelhost_kimi_parsers.formats import kimi_k2, kimi_k2_reasoning

from modelhost.api.parsing import ParserContext, parse
from modelhost.testing.parser import Sample, check_parser

ARGUMENTS = '{"a": "x\\"}", "b": [1, {}]}'
CALL = f"<|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{ARGUMENTS}<|tool_call_end|>"
TEXT = f"Hi <|tool_calls_section_begin|>{CALL}\n{CALL}<|tool_calls_section_end|>bye"


def test_kimi_k2() -> None:
    check_parser(kimi_k2, [Sample(TEXT)])


def test_ids_are_the_models() -> None:
    assert [call.id for call in parse(kimi_k2(ParserContext()), TEXT).calls] == ["functions.f:0", "functions.f:0"]


def test_reasoning() -> None:
    check_parser(kimi_k2_reasoning, [Sample("<think>a\n\nb \n</think>\nc"), Sample("a <|tool_calls_section_begin|>b")])
