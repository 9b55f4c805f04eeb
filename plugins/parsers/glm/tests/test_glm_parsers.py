"""The conformance kit on the formats of this package."""

from __future__ import annotations

from modelhost_glm_parsers.formats import glm, glm_reasoning

from modelhost.api.parsing import ParserContext
from modelhost.testing.parser import Sample, check_parser

TOOLS = [{"type": "function", "function": {"name": "f", "parameters": {"properties": {"a": {"type": "string"}}}}}]
CONTEXT = ParserContext(tools=TOOLS)


def test_glm() -> None:
    long = "<tool_call>f\n<arg_key>a</arg_key>\n<arg_value>x < y</arg_value>\n</tool_call>"
    short = long.replace("\n", "")
    unknown = long.replace("call>f", "call>g")
    check_parser(glm, [Sample(f"Hi\n{long}{short}{unknown}bye", CONTEXT)])


def test_glm_reasoning() -> None:
    check_parser(glm_reasoning, [Sample("<think>a < b</think>\n\nDone."), Sample("no end")])
