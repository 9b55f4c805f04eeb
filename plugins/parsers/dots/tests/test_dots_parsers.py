"""The conformance kit on the format of this package."""

from __future__ import annotations

from modelhost_dots_parsers.formats import dots

from modelhost.api.parsing import Call, Parsed, ParserContext
from modelhost.testing.parser import Sample, check_parser

TOOLS = [{"type": "function", "function": {"name": "f", "parameters": {"properties": {"a": {"type": "string"}}}}}]
CONTEXT = ParserContext(tools=TOOLS)
CALL = Call("f", '{"a": "x < y"}')


def block(text: str) -> str:
    return f"<dots_function_call>\n{text}\n</dots_function_call>"


def test_elements() -> None:
    element = '<invoke name="f">\n<parameter name="a">x < y</parameter>\n</invoke>'
    unquoted = element.replace('"', "")
    check_parser(
        dots,
        [
            Sample(f"Hi\n{block(element + element)}", CONTEXT, parsed=Parsed("", "Hi", (CALL, CALL))),
            Sample(block(unquoted) + "bye", CONTEXT, parsed=Parsed("", "bye", (CALL,))),
        ],
    )


def test_json() -> None:
    text = block('{"name": "f", "arguments": {"a": "x < y"}}')
    check_parser(dots, [Sample(f"Hi\n{text}\n{text}", CONTEXT, parsed=Parsed("", "Hi", (CALL, CALL)))])
