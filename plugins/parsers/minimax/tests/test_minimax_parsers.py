"""The conformance kit on the formats of this package."""

from __future__ import annotations

import re

from modelhost_minimax_parsers.formats import (
    minimax_m2,
    minimax_m2_append_think,
    minimax_m2_reasoning,
    minimax_m3,
    minimax_m3_reasoning,
)

from modelhost.api.parsing import ParserContext
from modelhost.testing.parser import Sample, check_parser

TOOLS = [{"type": "function", "function": {"name": "f", "parameters": {"properties": {"a": {"type": "string"}}}}}]
CONTEXT = ParserContext(tools=TOOLS)


def test_minimax_m2() -> None:
    call = """<invoke name="f">\n<parameter name="a">x < y</parameter>\n</invoke>\n"""
    text = f"Hi\n<minimax:tool_call>\n{call}{call}</minimax:tool_call>bye"
    check_parser(minimax_m2, [Sample(text, CONTEXT)])


def test_minimax_m3() -> None:
    call = '<invoke name="f"><a>x < y</a><b><c>1</c></b><b><item>2</item><item>3</item></b></invoke>'
    tags = re.sub(r"<(?! )", "]<]minimax[>[<", f"<tool_call>{call}{call}</tool_call>")
    check_parser(minimax_m3, [Sample(f"Hi\n{tags}bye", CONTEXT, markers=("]<]minimax[>[",))])


def test_reasoning() -> None:
    check_parser(minimax_m2_reasoning, [Sample("<think>a < b\n</think>\n\nDone."), Sample("no end")])
    check_parser(minimax_m2_append_think, [Sample("a</think>b"), Sample("")])
    check_parser(minimax_m3_reasoning, [Sample("<mm:think>a</mm:think>b</mm:think>c"), Sample("b")])
