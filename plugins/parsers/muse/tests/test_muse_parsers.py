"""The conformance kit on the formats of this package."""

from __future__ import annotations

from modelhost_muse_parsers.formats import muse, muse_reasoning

from modelhost.api.parsing import ParserContext
from modelhost.testing.parser import Sample, check_parser

TOOLS = [{"type": "function", "function": {"name": "f", "parameters": {"properties": {"a": {"type": "string"}}}}}]
CONTEXT = ParserContext(tools=TOOLS)


CALL = '<atem:invoke name="f">\n<atem:parameter name="a"> x < y </atem:parameter>\n</atem:invoke>\n'
TO_TOOL = f"to=f<|message|><atem:function_calls>\n{CALL}{CALL}</atem:function_calls>"
RECIPIENT = "to=[^<]*<"


def test_muse() -> None:
    text = f" to=self<|message|>Hm. {TO_TOOL}<|eom|><|start|>assistant to=user<|message|>See to=x {CALL}<|eot|>"
    for form in (muse, muse_reasoning):
        check_parser(form, [Sample(text, CONTEXT, ignored=(RECIPIENT,)), Sample("plain to= text", CONTEXT)])
