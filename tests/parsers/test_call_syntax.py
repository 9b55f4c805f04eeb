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
WITHOUT_OPENING = {"beam", "hf", "lfm2", "llama4_pythonic", "olmo3", "pythonic"}
"""Calls of a response template have no known syntax; calls in Python begin with their first argument only."""
OPENINGS = sorted(name for kind, name in declared() if kind == "tool" and name not in WITHOUT_OPENING)
ROME = {
    "qwen_xml": "<parameter=city>\nRome\n</parameter>",
    "glm_xml": "<arg_key>city</arg_key>\n<arg_value>Rome</arg_value>",
    "minimax_xml": '<parameter name="city">Rome</parameter>',
    "minimax_m3_xml": "]<]minimax[>[<city>Rome]<]minimax[>[</city>",
    "deepseek_xml": '<｜DSML｜parameter name="city" string="true">Rome</｜DSML｜parameter>\n',
    "deepseek_v4_1_xml": '<｜DSML｜ parameter name="city" string="true">Rome</｜DSML｜ parameter>\n',
    "kimi_k3_xml": '<|open|>argument key="city" type="string"<|sep|>Rome<|close|>argument<|sep|>',
}
"""The arguments `{"city": "Rome"}` in each style but JSON."""
ROME_WITHOUT_GRAMMAR = {
    "functiongemma": "city:<escape>Rome<escape>}",
    "gemma4": 'city:<|"|>Rome<|"|>}',
    "k2_horizon": "<ifm|arg_key>city</ifm|arg_key><ifm|arg_value>Rome</ifm|arg_value>\n",
    "minicpm5": '<param name="city">Rome</param>',
    **dict.fromkeys(("muse", "muse_glimmer", "musespark1x"), '<atem:parameter name="city">Rome</atem:parameter>\n'),
    "step3": '<steptml:parameter name="city">Rome</steptml:parameter>',
}
"""The same by name, in notations that no grammar is known for."""


def test_which_formats_cannot_begin_a_call() -> None:
    names = {name for kind, name in declared() if kind == "tool"}
    assert {name for name in names if named(name).opening is None} == WITHOUT_OPENING
    assert {name for name in OPENINGS if named(name).grammar is None} == set(ROME_WITHOUT_GRAMMAR)


def named(name: str, context: ParserContext = CONTEXT) -> Adjustment:
    return adjust_request(parser_format("tool", name), context, NAMED)


@pytest.mark.parametrize("name", OPENINGS)
def test_the_opening_is_a_call_that_goes_on_with_arguments(name: str) -> None:
    form = parser_format("tool", name)
    opening, grammar = named(name).opening, named(name).grammar
    assert opening is not None
    result = parse(form(CONTEXT), opening)
    assert [call.name for call in result.calls] == ["get_weather"]
    assert (result.content, result.reasoning) == ("", "")
    if grammar is None:
        more = ROME_WITHOUT_GRAMMAR[name]
    else:
        [tag] = grammar.tags
        assert opening == grammar.begin + tag.begin + ("{" if tag.arguments == "json" else "")
        more = ('"city": "Rome"}' if tag.arguments == "json" else ROME[tag.arguments]) + tag.end + grammar.end
    result = parse(form(CONTEXT), opening + more)
    [call] = result.calls
    assert (call.name, json.loads(call.arguments)) == ("get_weather", {"city": "Rome"})
    assert result.content == ""


@pytest.mark.parametrize("name", [name for name in OPENINGS if name not in ROME_WITHOUT_GRAMMAR])
def test_what_the_grammar_allows_is_read_as_calls(name: str) -> None:
    form = parser_format("tool", name)
    grammar = adjust_request(form, CONTEXT, ToolChoice("required")).grammar
    assert grammar is not None
    assert grammar.required
    assert [tag.name for tag in grammar.tags] == ["get_weather", "name"]
    if grammar.tags[0].arguments != "json":
        return
    bodies = ('{"city": "Rome"}', "{}")
    written = [tag.begin + body + tag.end for tag, body in zip(grammar.tags, bodies, strict=True)]
    expected = [("get_weather", {"city": "Rome"}), ("name", {})]
    count = 2 if grammar.parallel else 1
    text = grammar.begin + grammar.separator.join(written[:count]) + grammar.end
    assert text.startswith(grammar.trigger)
    result = parse(form(CONTEXT), text)
    assert [(call.name, json.loads(call.arguments)) for call in result.calls] == expected[:count]
    assert result.content == ""


@pytest.mark.parametrize(
    ("name", "prompt", "opening"),
    [
        ("kimi_k2", "", "<|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0<|"),
        ("kimi_k2", "<|tool_call_begin|>a<|tool_call_begin|>b", "<|tool_call_begin|>functions.get_weather:2<|"),
        ("kimi_k3", "<|open|>response<|sep|>", "<|close|>response<|sep|><|open|>tools<|sep|><|open|>call tool="),
        ("kimi_k3", "<|close|>think<|sep|>", "<|open|>response<|sep|><|close|>response<|sep|><|open|>tools"),
        ("inkling", "<|message_model|>", "get_weather<|content_invoke_tool_json|>"),
        ("inkling", "", "<|message_model|>get_weather<|content_invoke_tool_json|>"),
    ],
)
def test_the_opening_goes_on_where_the_prompt_ends(name: str, prompt: str, opening: str) -> None:
    context = ParserContext(tools=TOOLS, prompt=prompt)
    found = named(name, context).opening
    assert found is not None
    assert opening in found
    assert found.startswith(opening) or prompt.startswith("<|tool_call_begin|>")
    assert [call.name for call in parse(parser_format("tool", name)(context), found).calls] == ["get_weather"]


@pytest.mark.parametrize("name", ["hy_v3", "hy_v4"])
def test_tags_with_a_suffix_have_no_known_grammar(name: str) -> None:
    context = ParserContext(tools=TOOLS, vocabulary=GoldenVocabulary(["<tool_calls:opensource>"]))
    assert named(name).grammar is not None
    assert named(name, context).grammar is None
    opening = named(name, context).opening
    assert opening is not None
    assert opening.startswith("<tool_calls:opensource>")
    assert [call.name for call in parse(parser_format("tool", name)(context), opening).calls] == ["get_weather"]


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
