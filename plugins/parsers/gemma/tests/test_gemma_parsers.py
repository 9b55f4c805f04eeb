"""The conformance kit on the formats of this package."""

from __future__ import annotations

from modelhost_gemma_parsers.formats import functiongemma, gemma4, gemma4_reasoning

from modelhost.api.parsing import ParserContext
from modelhost.testing.parser import Sample, check_parser

TOOLS = [{"type": "function", "function": {"name": "f", "parameters": {"properties": {"a": {"type": "string"}}}}}]
CONTEXT = ParserContext(tools=TOOLS)


def test_functiongemma() -> None:
    call = "<start_function_call>call:f{a:<escape>x, {y}<escape>,b:<escape>[1]<escape>,c:2}<end_function_call>"
    check_parser(functiongemma, [Sample(f"Hi {call}{call} bye", CONTEXT)])


def test_gemma4() -> None:
    call = '<|tool_call>call:f{a:<|"|>x, {y}<|"|>, b:{c:[1,<|"|>z<|"|>,{}]},<|"|>d<|"|>:New York}<tool_call|>'
    check_parser(gemma4, [Sample(f"Hi {call}{call} bye", CONTEXT)])


def test_gemma4_reasoning() -> None:
    check_parser(gemma4_reasoning, [Sample("<|channel>thought\na < b\n<channel|>\nDone."), Sample("all is content")])
