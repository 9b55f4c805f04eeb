"""The conformance kit on the formats of this package."""

from __future__ import annotations

import pytest
from modelhost_ifm_parsers.formats import k2_horizon, k2_horizon_reasoning

from modelhost.api.parsing import Call, Parsed, ParserContext, parse
from modelhost.testing.parser import Sample, check_parser

TOOLS = [{"type": "function", "function": {"name": "f", "parameters": {"properties": {"a": {"type": "string"}}}}}]


def call(kind: str) -> str:
    return (
        f"<ifm|tool_call>f\n<ifm|arg_key>a</ifm|arg_key>{kind}<ifm|arg_value>x < y</ifm|arg_value>\n</ifm|tool_call>\n"
    )


def group(*calls: str) -> str:
    return f"<ifm|tool_calls>\n{''.join(calls)}</ifm|tool_calls>"


@pytest.mark.parametrize(
    "kind", ["", "<ifm|arg_type>string</ifm|arg_type>", "\n<ifm|arg_type>array[int]</ifm|arg_type>\n"]
)
def test_elements(kind: str) -> None:
    found = Call("f", '{"a": "x < y"}')
    text = f"Hi {group(call(kind), call(kind))}"
    sample = Sample(text, ParserContext(tools=TOOLS), ignored=(r">\s*<ifm\|arg_type>.*?</ifm\|arg_type>\s*<",))
    check_parser(k2_horizon, [sample])
    assert parse(k2_horizon(sample.context), text) == Parsed("", "Hi ", (found, found))


def test_json() -> None:
    context = ParserContext(tools=TOOLS, template_options={"tool_call_format": "json"})
    text = group('<ifm|tool_call>{"name": "f", "arguments": {"a": 1}}</ifm|tool_call>\n' * 2)
    found = Call("f", '{"a": 1}')
    check_parser(k2_horizon, [Sample(text, context, parsed=Parsed("", "", (found, found)))])


def test_stated_types_decide_where_the_schema_does_not() -> None:
    text = group(call("<ifm|arg_type>integer</ifm|arg_type>").replace(">a<", ">b<").replace("x < y", "5"))
    [found] = parse(k2_horizon(ParserContext(tools=TOOLS)), text).calls
    assert found.arguments == '{"b": 5}'


@pytest.mark.parametrize(("effort", "tag"), [("high", "think"), ("medium", "think_fast"), ("low", "think_faster")])
def test_reasoning(effort: str, tag: str) -> None:
    context = ParserContext(template_options={"reasoning_effort": effort})
    sample = Sample(f"<ifm|{tag}>a < b</ifm|{tag}>c", context, parsed=Parsed("a < b", "c", ()))
    check_parser(k2_horizon_reasoning, [sample, Sample(f"a{group(call(''))}", context)])
