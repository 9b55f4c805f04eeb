"""What formats state about forced calls: by their own parser, the stated text is a call."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from golden_cases import GoldenVocabulary, declared, parser_format

from modelhost.api.parsing import (
    Adjusted,
    Adjustment,
    CallSyntax,
    JsonCalls,
    ParserContext,
    ToolChoice,
    adjust_request,
    parse,
)

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}
TOOLS: list[dict[str, Any]] = [
    {"type": "function", "function": {"name": "get_weather", "parameters": SCHEMA}},
    {"type": "function", "function": {"name": "name", "strict": True}},
]
CONTEXT = ParserContext(tools=TOOLS)
NAMED = ToolChoice("named", "get_weather")
WITH_SYNTAX = sorted(
    name for kind, name in declared() if kind == "tool" and getattr(parser_format("tool", name), "syntax", None)
)


def test_many_formats_state_their_syntax() -> None:
    assert {"hermes", "qwen3_coder", "llama3_json", "deepseek_v31", "openai", "glm45"} <= set(WITH_SYNTAX)


@pytest.mark.parametrize("name", WITH_SYNTAX)
def test_the_opening_is_a_call_that_goes_on_with_arguments(name: str) -> None:
    form = parser_format("tool", name)
    opening = adjust_request(form, CONTEXT, NAMED).opening
    assert opening is not None
    result = parse(form(CONTEXT), opening)
    assert [call.name for call in result.calls] == ["get_weather"]
    assert (result.content, result.reasoning) == ("", "")
    if form.syntax.arguments == "json":
        [call] = parse(form(CONTEXT), opening + '"city": "Rome"}').calls
        assert json.loads(call.arguments) == {"city": "Rome"}


@pytest.mark.parametrize("name", WITH_SYNTAX)
def test_what_the_grammar_allows_is_read_as_calls(name: str) -> None:
    form = parser_format("tool", name)
    grammar = adjust_request(form, CONTEXT, ToolChoice("required")).grammar
    assert grammar is not None
    assert grammar.required
    assert [tag.name for tag in grammar.tags] == ["get_weather", "name"]
    if form.syntax.arguments != "json":
        return
    bodies = ('{"city": "Rome"}', "{}")
    written = [tag.begin + body + tag.end for tag, body in zip(grammar.tags, bodies, strict=True)]
    text = grammar.begin + grammar.separator.join(written) + grammar.end
    assert text.startswith(grammar.trigger)
    result = parse(form(CONTEXT), text)
    assert [(call.name, json.loads(call.arguments)) for call in result.calls] == [
        ("get_weather", {"city": "Rome"}),
        ("name", {}),
    ]
    assert result.content == ""


def test_structural_tag_of_separate_calls() -> None:
    form = JsonCalls(
        open=("<c>",), close=("</c>",), syntax=CallSyntax('<c>{"name": "NAME", "arguments": ARGUMENTS}</c>')
    )
    grammar = adjust_request(form, CONTEXT, NAMED).grammar
    assert grammar is not None
    assert grammar.structural_tag() == {
        "type": "structural_tag",
        "format": {
            "type": "triggered_tags",
            "triggers": ['<c>{"name": "'],
            "tags": [
                {
                    "type": "tag",
                    "begin": '<c>{"name": "get_weather", "arguments": ',
                    "content": {"type": "json_schema", "json_schema": SCHEMA},
                    "end": "}</c>",
                }
            ],
            "at_least_one": True,
            "stop_after_first": True,
        },
    }


def test_structural_tag_of_a_block_of_calls() -> None:
    syntax = CallSyntax("<f=NAME>ARGUMENTS</f>", begin="<all>", separator=",", end="</all>", arguments="qwen_xml")
    tag = syntax.grammar(TOOLS, required=False, parallel=True).structural_tag()
    outer = tag["format"]
    assert (outer["triggers"], outer["at_least_one"], outer["stop_after_first"]) == (["<all>"], False, True)
    [block] = outer["tags"]
    assert (block["begin"], block["end"]) == ("<all>", "</all>")
    calls = block["content"]
    assert (calls["type"], calls["separator"], calls["stop_after_first"]) == ("tags_with_separator", ",", False)
    assert calls["tags"][1]["begin"] == "<f=name>"
    assert calls["tags"][1]["content"] == {
        "type": "json_schema",
        "json_schema": {"type": "object"},
        "style": "qwen_xml",
    }


def test_strict_tools_need_a_grammar_without_being_forced() -> None:
    form = JsonCalls(open=("<c>",), syntax=CallSyntax("<c>NAME ARGUMENTS"))
    adjustment = adjust_request(form, CONTEXT, ToolChoice())
    assert adjustment.grammar is not None
    assert [tag.name for tag in adjustment.grammar.tags] == ["name"]
    assert not adjustment.grammar.required
    assert adjustment.opening is None
    assert adjust_request(form, CONTEXT, ToolChoice("none")) == Adjustment()


def test_a_choice_among_several_tools_has_no_opening() -> None:
    form = JsonCalls(open=("<c>",), syntax=CallSyntax("<c>NAME ARGUMENTS"))
    assert adjust_request(form, CONTEXT, ToolChoice("required")).opening is None
    assert adjust_request(form, CONTEXT, NAMED).opening == "<c>get_weather {"


def test_formats_without_syntax_ask_for_nothing() -> None:
    assert adjust_request(JsonCalls(open=("<c>",)), CONTEXT, NAMED) == Adjustment()
    assert adjust_request(lambda context: JsonCalls()(context), CONTEXT, NAMED) == Adjustment()


def test_a_hook_of_a_formats_own() -> None:
    def hook(context: ParserContext, choice: ToolChoice) -> Adjustment:
        return Adjustment(keep_special_tokens=choice.forced, opening=context.tools[0]["function"]["name"])

    form = Adjusted(JsonCalls(open=("<c>",)), hook)
    assert adjust_request(form, CONTEXT, NAMED) == Adjustment(keep_special_tokens=True, opening="get_weather")
    assert parse(form(CONTEXT), '<c>{"name": "f", "arguments": {}}').calls[0].name == "f"


@pytest.mark.parametrize(
    ("tokens", "opening"),
    [
        (("[TOOL_CALLS]", "[ARGS]"), "[TOOL_CALLS]get_weather[ARGS]{"),
        (("[TOOL_CALLS]",), '[TOOL_CALLS][{"name": "get_weather", "arguments": {'),
    ],
)
def test_mistral_asks_the_vocabulary_and_has_short_ids(tokens: tuple[str, ...], opening: str) -> None:
    context = ParserContext(tools=TOOLS, vocabulary=GoldenVocabulary(list(tokens)))
    form = parser_format("tool", "mistral")
    adjustment = adjust_request(form, context, NAMED)
    assert adjustment.opening == opening
    [call] = parse(form(context), opening + '"city": "Rome"}').calls
    assert (call.name, json.loads(call.arguments)) == ("get_weather", {"city": "Rome"})
    assert adjustment.new_call_id is not None
    assert re.fullmatch(r"[A-Za-z0-9]{9}", adjustment.new_call_id(0))
