"""The conformance kit on the formats of this package."""

from __future__ import annotations

import pytest
from modelhost_hunyuan_parsers.formats import hunyuan_a13b, hunyuan_a13b_reasoning, hy_v3, hy_v3_reasoning

from modelhost.api.parsing import Call, Parsed, ParserContext, parse
from modelhost.testing.parser import Sample, check_parser


def tagged(suffix: str) -> str:
    key = f"<arg_key{suffix}>a</arg_key{suffix}>\n<arg_value{suffix}>x < y</arg_value{suffix}>\n"
    call = f"<tool_call{suffix}>f<tool_sep{suffix}>\n{key}</tool_call{suffix}>\n"
    return f"Hi\n<tool_calls{suffix}>\n{call}{call}</tool_calls{suffix}>\nbye"


class Vocabulary:
    """A vocabulary of a few tokens."""

    def __init__(self, *tokens: str) -> None:
        self._tokens = tokens

    def token_id(self, text: str) -> int | None:
        return self._tokens.index(text) if text in self._tokens else None


def test_hunyuan_a13b() -> None:
    calls = '<tool_calls>[{"name": "f", "arguments": {"a": "x\\"]"}}, {"name": "g", "arguments": {}}]</tool_calls>'
    check_parser(hunyuan_a13b, [Sample(f"Hi {calls} bye")])


def test_hunyuan_a13b_reasoning() -> None:
    text = "<think>\na\nb\n</think>\n<answer>\nc < d\n\n</answer>"
    check_parser(hunyuan_a13b_reasoning, [Sample(text), Sample("<think> is a tag")])


def test_answer_markers_are_left_out_after_empty_reasoning_in_the_prompt() -> None:
    context = ParserContext(prompt="<think>\n\n</think>\n")
    assert parse(hunyuan_a13b_reasoning(context), "<answer>\nHello\n</answer>") == Parsed("", "Hello", ())


@pytest.mark.parametrize(
    ("suffix", "prompt"), [("", "<think>"), (":opensource", ""), (":6124c78e", "<｜hy_middle:6124c78e｜>")]
)
def test_suffix_of_tags_is_found(suffix: str, prompt: str) -> None:
    vocabulary = Vocabulary(f"<tool_calls{suffix}>")
    context = ParserContext(prompt=prompt, vocabulary=vocabulary, template_options={"reasoning_effort": "high"})
    call = Call("f", '{"a": "x < y"}')
    assert parse(hy_v3(context), tagged(suffix)) == Parsed("", "Hi\n\nbye", (call, call))
    check_parser(hy_v3, [Sample(tagged(suffix), context)])
    text = f"<think{suffix}>a</think{suffix}>b"
    assert parse(hy_v3_reasoning(context), text) == Parsed("a", "b", ())


def test_hy_v3_reasoning_needs_an_effort() -> None:
    options = {"reasoning_effort": "no_think"}
    assert parse(hy_v3_reasoning(ParserContext(template_options=options)), "a</think>b").content == "a</think>b"
