"""The conformance kit on the formats of this package."""

from __future__ import annotations

from modelhost_minicpm_parsers.formats import minicpm5, minicpmv_reasoning

from modelhost.api.parsing import ParserContext
from modelhost.testing.parser import Sample, check_parser

TOOLS = [{"type": "function", "function": {"name": "f", "parameters": {"properties": {"a": {"type": "string"}}}}}]
CONTEXT = ParserContext(tools=TOOLS)


def test_minicpm5() -> None:
    call = '<function name="f"><param name="a">x < y</param></function>'
    section = '<function name="f"><param name="a"><![CDATA[x < y]]></param></function>'
    unknown = call.replace('"f"', '"g"')
    check_parser(minicpm5, [Sample(f"Hi\n{call}\n{section}{unknown}bye", CONTEXT)])


def test_minicpmv_reasoning() -> None:
    context = ParserContext(template_options={"enable_thinking": True})
    check_parser(minicpmv_reasoning, [Sample("a < b</think>\n\nDone.<|im_end|>", context), Sample("<think>a</think>b")])
