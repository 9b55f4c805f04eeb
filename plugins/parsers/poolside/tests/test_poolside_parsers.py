"""The conformance kit on the formats of this package."""

from __future__ import annotations

from modelhost_poolside_parsers.formats import poolside_v1, poolside_v1_reasoning

from modelhost.api.parsing import ParserContext
from modelhost.testing.parser import Sample, check_parser

CONTEXT = ParserContext(template_options={"enable_thinking": True})


def test_poolside_v1() -> None:
    call = "<tool_call>f\n<arg_key>a</arg_key>\n<arg_value>x < y</arg_value>\n</tool_call>"
    check_parser(poolside_v1, [Sample(f"Hi\n{call}\n{call}\nbye")])


def test_poolside_v1_reasoning() -> None:
    check_parser(poolside_v1_reasoning, [Sample("<think>a < b</think>\n\nDone.", CONTEXT), Sample("all is content")])
