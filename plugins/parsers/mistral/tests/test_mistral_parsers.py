"""The conformance kit on the formats of this package."""

from __future__ import annotations

import pytest
from modelhost_mistral_parsers.formats import mistral, mistral_reasoning

from modelhost.api.parsing import ParserContext, parse
from modelhost.testing.parser import Sample, check_parser

ARGUMENTS = '{"a": "x\\"]", "b": [1, {}]}'


def test_calls() -> None:
    named = f"[TOOL_CALLS]f[ARGS]{ARGUMENTS}"
    array = f'[TOOL_CALLS] [{{"name": "f", "arguments": {ARGUMENTS}}}]'
    samples = [f"Hi {named}{named} bye", f"Hi {array} bye", "[TOOL_CALLS] [1] [TOOL", f"[TOOL_CALLS]f{ARGUMENTS}"]
    check_parser(mistral, [Sample(text) for text in samples])


@pytest.mark.parametrize("text", ["[TOOL_CALLS]", "[TOOL_CALLS]  ", "[TOOL_CALLS][", "a [TOOL_CALLS] b", "[TOOL_CAL"])
def test_text_that_is_no_call_is_content(text: str) -> None:
    result = parse(mistral(ParserContext()), text)
    assert (result.content.rstrip(), result.calls) == (text.rstrip(), ())


def test_reasoning() -> None:
    check_parser(mistral_reasoning, [Sample("[THINK]a [b] c[/THINK]\n\nd"), Sample("a [THINK b")])
