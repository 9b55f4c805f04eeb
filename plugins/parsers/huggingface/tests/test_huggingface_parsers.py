"""Response templates: what they make of answers, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
from modelhost_huggingface_parsers.formats import response_template, response_template_reasoning
from modelhost_huggingface_parsers.values import read_value

from modelhost.api import TokenizerError, UnsupportedError
from modelhost.api.parsing import Call, Content, Parsed, ParserContext, ToolChoice, adjust_request, parse
from modelhost.testing.parser import Sample, check_parser, check_result, check_splits

PROPERTIES = {"a": {"type": "string"}, "n": {"type": "integer"}}
TOOLS = [{"type": "function", "function": {"name": "f", "parameters": {"properties": PROPERTIES}}}]
FUNCTION = {"name": "{name}", "arguments": "{content}"}
ELEMENTS: dict[str, Any] = {
    "start_anchor": "<|assistant|>",
    "fields": {
        "thinking": {"open": "<think>", "close": ["</think>", "</think>\n"]},
        "tool_calls": {
            "open_pattern": r"\s*<call=(?P<name>\w+)>",
            "close": "</call>",
            "repeats": True,
            "content": "xml-inline",
            "content_args": {"tag_pattern": r"<(?P<key>\w+)>(?P<value>.*?)</\w+>", "merge_duplicates": True},
            "transform": {"function": FUNCTION},
        },
        "content": {"close_pattern": r"\s*<\|end\|>"},
    },
}
CALL = Call("f", '{"a": "x < y", "n": 3}')
TEXT = "<think>r < s</think>\nHi\n <call=f><a>x < y</a><n>3</n></call>"


def context(template: dict[str, Any] = ELEMENTS, prompt: str = "hi<|assistant|>") -> ParserContext:
    return ParserContext(tools=TOOLS, prompt=prompt, response_template=template)


def changed(**changes: Any) -> dict[str, Any]:
    return {**ELEMENTS, **changes}


def test_regions() -> None:
    ignored = (r"\s*<call=f><a>", r"</a><n>", r"</n></call>")
    samples = [
        Sample(TEXT * 2, context(), ignored=ignored, parsed=Parsed("r < sr < s", "HiHi", (CALL, CALL))),
        Sample("Hi  \n<|end|>", context(), parsed=Parsed("", "Hi", ())),
        Sample("Hi  \n<|en <call> <ca", context()),
    ]
    check_parser(response_template, samples)


@pytest.mark.parametrize(
    ("prompt", "text", "expected"),
    [
        ("<|assistant|><think>", "r</think>a", Parsed("r", "a", ())),
        ("<|assistant|><think>r</think>\n", "a", Parsed("", "a", ())),
        ("<think><|assistant|>Hi  ", " <|end|>", Parsed("", "", ())),
        ("<think>", "r</think>a", Parsed("r", "a", ())),
        ("<|assistant|>Hi<call=f><n>1</n></call> ", "<call=f><a>x < y</a><n>3</n></call>", Parsed("", "", (CALL,))),
        ("<|assistant|><call=f><a>x < y</a>", "<n>3</n></call>a", Parsed("", "a", (CALL,))),
    ],
)
def test_the_prompt_may_hold_the_beginning(prompt: str, text: str, expected: Parsed) -> None:
    sample = Sample(text, context(prompt=prompt), parsed=expected)
    check_result(response_template, sample)
    check_splits(response_template, sample)


def test_regions_that_cannot_be_read_are_content() -> None:
    template = changed(fields={"tool_calls": {"open": "<c>", "close": "</c>", "content": "json"}})
    for text in ("a<c>{</c>b", "<c>[1]</c>", '<c>{"function": {"name": ""}}</c>', "<c>{}"):
        check_parser(response_template, [Sample(text, context(template), parsed=Parsed("", text, ()))])


def test_text_outside_regions_is_markup_where_the_template_has_no_place_for_it() -> None:
    template = changed(fields={"content": {"open": "<a>", "close": "</a>"}})
    assert parse(response_template(context(template)), "x<a>Hi</a>y") == Parsed("", "Hi", ())


def test_calls_are_text_when_they_are_not_looked_for() -> None:
    assert parse(response_template_reasoning(context()), TEXT) == Parsed("r < s", TEXT.partition("</think>\n")[2], ())


def test_content_is_sent_as_it_arrives() -> None:
    parser = response_template(context())
    parser.feed("Some")
    assert parser.feed(" prose") == [Content(" prose")]


@pytest.mark.parametrize(
    ("parser", "settings", "text", "value"),
    [
        ("text", {}, " a ", "a"),
        ("text", {"strip": False}, " a ", " a "),
        ("int", {}, " 3 ", 3),
        ("float", {}, "1.5", 1.5),
        ("bool", {}, "True", True),
        ("json", {}, '{"a": [1]}', {"a": [1]}),
        ("json", {"allow_non_json": True}, " a: ", "a:"),
        ("json", {"unquoted_keys": True}, '{a: {b_1: "{c: d"}}', {"a": {"b_1": "{c: d"}}),
        ("json", {"string_delims": [["<q>", "</q>"]]}, '[<q>"a"\n</q>, "<q>"]', ['"a"\n', "<q>"]),
        ("kv-lines", {"value_parser": {"name": "json"}}, "a: 1\nb\nc:[2]", {"a": 1, "c": [2]}),
        (
            "xml-inline",
            {"tag_pattern": r"<(?P<key>\w)>(?P<value>.)", "merge_duplicates": True},
            "<a>1<a>2<a>3<b>4",
            {"a": ["1", "2", "3"], "b": "4"},
        ),
        (
            "python-call-list",
            {},
            "[f(a=1), g()]",
            [{"name": "f", "arguments": {"a": 1}}, {"name": "g", "arguments": {}}],
        ),
    ],
)
def test_values(parser: str, settings: dict[str, Any], text: str, value: Any) -> None:
    assert read_value(text, parser, settings) == value


@pytest.mark.parametrize(("parser", "text"), [("json", "{"), ("int", "a"), ("python-call-list", "f(1)")])
def test_values_that_are_written_otherwise(parser: str, text: str) -> None:
    with pytest.raises(ValueError):
        read_value(text, parser, {})


@pytest.mark.parametrize(
    ("template", "error", "message"),
    [
        (None, UnsupportedError, "response_template, which it does not have"),
        (changed(version=2), UnsupportedError, "response_template.version: 2"),
        (changed(fields={}), TokenizerError, "response_template.fields: must be an object"),
        (changed(fields={"thinking": {}, "content": {}}), TokenizerError, "thinking and content both lack"),
        (changed(fields={"citations": {"open": "["}}), UnsupportedError, "fields.citations: is none of thinking"),
        (changed(fields={"content": {"content": "json"}}), UnsupportedError, "fields.content: only plain text"),
        (changed(fields={"content": {"opens": "["}}), UnsupportedError, "fields.content.opens: is not a key"),
        (changed(fields={"content": {"close": []}}), TokenizerError, "fields.content.close: must be a text"),
        (
            changed(fields={"content": {"close_pattern": "("}}),
            TokenizerError,
            "close_pattern: is no regular expression",
        ),
        (changed(fields={"content": {"close": "a", "close_pattern": "a"}}), TokenizerError, "both close and"),
        ({"fields": {"content": {}}}, TokenizerError, "lacks start_anchor"),
    ],
)
def test_templates_that_are_refused(template: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message.replace("[", r"\[")):
        response_template(ParserContext(response_template=template))


def test_delimiters_are_kept_and_no_call_is_forced() -> None:
    adjustment = adjust_request(response_template, context(), ToolChoice("named", "f"))
    assert (adjustment.keep_special_tokens, adjustment.opening, adjustment.grammar) == (True, None, None)
