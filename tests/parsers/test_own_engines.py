"""Formats with an engine of their own, and formats without recorded outputs: results, edges and the work they do."""

from __future__ import annotations

import json
from typing import Any

import pytest
from golden_cases import declared, parser_format
from hypothesis import given, settings
from hypothesis import strategies as st

from modelhost.api.parsing import Call, CallArguments, Content, Parsed, ParserContext, collect, output_parser, parse
from modelhost.testing.parser import Sample, check_parser

PROPERTIES = {"path": {"type": "string"}, "tags": {"type": "array", "items": {"type": "integer"}}}
TOOLS = [{"type": "function", "function": {"name": "w", "parameters": {"type": "object", "properties": PROPERTIES}}}]
CONTEXT = ParserContext(tools=TOOLS)
MARK = "]<]minimax[>["


def marked(elements: str) -> str:
    return elements.replace("<", f"{MARK}<")


def result(kind: str, name: str, text: str, context: ParserContext = CONTEXT) -> Parsed:
    return parse(parser_format(kind, name)(context), text)


# Gemma


@pytest.mark.parametrize(
    ("arguments", "sent"),
    [
        ("", "{}"),
        (' path : <|"|>a<|"|> , ', '{"path": "a"}'),
        ('path:<|"|>5<|"|>,tags:<|"|>[1]<|"|>', '{"path": "5", "tags": [1]}'),
        ("path:New York,tags:[1, 2]", '{"path": "New York", "tags": [1, 2]}'),
        ('x:{<|"|>a:b<|"|>:[{},[]]},y:5', '{"x": {"a:b": [{}, []]}, "y": "5"}'),
        ("path:10:30", '{"path": "10:30"}'),
        ('path:<|"|>a<|"|> b,c:1', '{"path": "a"b,c:1}'),
        ("tags:[1}", '{"tags": [1}}'),
    ],
)
def test_gemma4_arguments(arguments: str, sent: str) -> None:
    text = (
        f"<|tool_call>call:w{{{arguments.removesuffix('}') if arguments.endswith(', }') else arguments}}}<tool_call|>"
    )
    assert result("tool", "gemma4", text) == Parsed("", "", (Call("w", sent),))


@pytest.mark.parametrize(
    ("cut", "sent"),
    [
        ("", "{"),
        ("pa", "{pa"),
        ('path:<|"|>a', '{"path": "a'),
        ('path:<|"|>a<|', '{"path": "a'),
        ('path:<|"|>a<|"|>', '{"path": "a"'),
        ('path:<|"|>a<|"|>,ta', '{"path": "a", ta'),
        ("tags:[1,2", '{"tags": [1, 2'),
        ("tags:[1]}", '{"tags": [1]}'),
        ("tags:[1]}<tool_", '{"tags": [1]}'),
    ],
)
def test_gemma4_calls_that_are_cut_off(cut: str, sent: str) -> None:
    assert result("tool", "gemma4", f"<|tool_call>call:w{{{cut}") == Parsed("", "", (Call("w", sent),))


@pytest.mark.parametrize(
    "text", ["<|tool_call>", "<|tool_call>cal", "<|tool_call>call:", "<|tool_call>tell:w{}", "<|t"]
)
def test_gemma4_text_that_begins_no_call_is_content(text: str) -> None:
    assert result("tool", "gemma4", text) == Parsed("", text, ())


def test_a_broken_gemma4_call_does_not_swallow_the_next() -> None:
    found = result("tool", "gemma4", "<|tool_call>call:f{a:1 <|tool_call>call:g{}<tool_call|>")
    assert found.calls == (Call("f", '{"a": 1 '), Call("g", "{}"))


def test_functiongemma_values_have_the_types_of_the_schema() -> None:
    text = "<start_function_call>call:w{path:<escape>1<escape>,tags:<escape>[1]<escape>,x:<escape>1<escape>,y:true}"
    assert result("tool", "functiongemma", text).calls == (Call("w", '{"path": "1", "tags": [1], "x": 1, "y": true}'),)


# MiniMax M3


@pytest.mark.parametrize(
    ("elements", "sent"),
    [
        ("", {}),
        ("<path>a</path>", {"path": "a"}),
        ("<tags><item>1</item><item>2</item></tags>", {"tags": [1, 2]}),
        ("<tags>[1, 2]</tags>", {"tags": [1, 2]}),
        ("<tags></tags>", {"tags": []}),
        ("<x>1</x><path>a</path><x>2</x>", {"path": "a", "x": ["1", "2"]}),
        ("<x><y>1</y><y>2</y><z><item>3</item></z></x>", {"x": {"y": ["1", "2"], "z": ["3"]}}),
        ("<path>a<b>c</path>", {"path": f"a{MARK}<b>c"}),
        ("<x>" * 500, {}),
    ],
)
def test_minimax_m3_arguments(elements: str, sent: dict[str, Any]) -> None:
    text = marked(f'<tool_call>\n<invoke name="w">{elements}</invoke>\n</tool_call>')
    found = result("tool", "minimax_m3", text)
    assert found.content == ""
    assert [call.name for call in found.calls] == ["w"]
    if len(elements) < 1000:
        assert json.loads(found.calls[0].arguments) == sent


@pytest.mark.parametrize(
    "text", ["<tool_call>", "<tool_call>\nno", '<invoke name="w', "<path>a</path>", "</tool_call>"]
)
def test_minimax_m3_text_that_begins_no_call_is_content(text: str) -> None:
    assert result("tool", "minimax_m3", marked(text)) == Parsed("", marked(text), ())


def test_minimax_m3_strings_are_sent_as_they_arrive() -> None:
    parser = parser_format("tool", "minimax_m3")(CONTEXT)
    parser.feed(marked('<invoke name="w"><path>'))
    assert parser.feed("some text") == [CallArguments(0, "some text")]


# Muse


ATEM = (
    '<atem:function_calls>\n<atem:invoke name="{}">\n<atem:parameter name="path"> a </atem:parameter>\n'
    '<atem:parameter name="tags">[1]</atem:parameter>\n</atem:invoke>\n</atem:function_calls>'
)
SELF, USER = " to=self<|message|>", " to=user<|message|>"
NEXT = "<|eom|><|start|>assistant"
ARGUMENTS = '{"path": " a ", "tags": [1]}'


@pytest.mark.parametrize("name", ["muse", "muse_glimmer", "musespark1x"])
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"{SELF}r{NEXT}{USER}a<|eot|>", Parsed("r", "a", ())),
        (f"{SELF}r{NEXT} to=w<|message|>{ATEM.format('w')}<|eot|>", Parsed("r", "", (Call("w", ARGUMENTS),))),
        (f"{SELF}r{NEXT} to=w.w<|message|>{ATEM.format('w.w')}<|eot|>", Parsed("r", "", (Call("w", ARGUMENTS),))),
        (f"{SELF}r to=w<|message|>{ATEM.format('w')}", Parsed("r ", "", (Call("w", ARGUMENTS),))),
        (f"{SELF}{ATEM.format('w')}{NEXT}{USER}a", Parsed(ATEM.format("w"), "a", ())),
        (f"{SELF}r{NEXT}{SELF}s{NEXT}{USER}a{NEXT}{USER}b<|eot|>", Parsed("r\ns", "a\nb", ())),
        (f"{NEXT}{SELF}go to=x now", Parsed("go to=x now", "", ())),
        ("<|message|>a", Parsed("", "a", ())),
        ("plain, to=", Parsed("", "plain, to=", ())),
        (" to", Parsed("", " to", ())),
        ("assistant", Parsed("", "assistant", ())),
    ],
)
def test_muse(name: str, text: str, expected: Parsed) -> None:
    assert result("tool", name, text) == expected
    check_parser(parser_format("tool", name), [Sample(text, CONTEXT, ignored=("to=[^<]*<",))])


def test_a_header_that_is_cut_off_is_left_out() -> None:
    assert result("tool", "muse", f"{SELF}r{NEXT} to=us") == Parsed("r", "", ())


@pytest.mark.parametrize("length", [250, 4090, 5000])
def test_long_headers_are_the_same_in_pieces(length: int) -> None:
    name = "n" * length
    for id, text in (
        ("muse", f"to={name}<|message|>a"),
        ("muse", f"{SELF}x to={name}<|message|>a"),
        ("gemma4", f"<|tool_call>call:{name}{{}}"),
        ("minimax_m3", f'{MARK}<invoke name="{name}">{MARK}</invoke>'),
    ):
        parser = parser_format("tool", id)(CONTEXT)
        events = [event for character in text for event in parser.feed(character)]
        assert collect([*events, *parser.finish()]) == result("tool", id, text)


@pytest.mark.parametrize("name", ["muse", "muse_glimmer", "musespark1x"])
def test_without_tools_messages_to_tools_are_content(name: str) -> None:
    text = f"{SELF}r{NEXT} to=w<|message|>{ATEM.format('w')}<|eot|>"
    parser = output_parser(CONTEXT, reasoning=parser_format("reasoning", name))
    assert parse(parser, text) == Parsed("r", ATEM.format("w"), ())


# Names without recorded outputs


def test_step5() -> None:
    text = "Hi\n<tool_call>\n<function=w>\n<parameter=path>\na\n</parameter>\n</function>\n</tool_call>\nbye"
    assert result("tool", "step5", text) == Parsed("", "Hi\nbye", (Call("w", '{"path": "a"}'),))
    assert result("reasoning", "step5", "r</think>a") == Parsed("r", "a", ())
    check_parser(parser_format("tool", "step5"), [Sample(text, CONTEXT)])


def test_qwen3_json_is_another_name_of_hermes() -> None:
    assert declared()["tool", "qwen3_json"].target == declared()["tool", "hermes"].target
    call = Call("w", '{"path": "a"}')
    text = '<tool_call>\n{"name": "w", "arguments": {"path": "a"}}\n</tool_call>'
    assert result("tool", "qwen3_json", text) == Parsed("", "", (call,))


@pytest.mark.parametrize(
    ("options", "text", "expected"),
    [
        ({}, "a<|im_end|>", Parsed("", "a", ())),
        ({}, "<think>r</think>a", Parsed("r", "a", ())),
        ({"enable_thinking": True}, "r</think>a", Parsed("r", "a", ())),
        ({"enable_thinking": True}, "r<tool_call>", Parsed("r", "<tool_call>", ())),
        ({"enable_thinking": False}, "a", Parsed("", "a", ())),
    ],
)
def test_minicpmv(options: dict[str, Any], text: str, expected: Parsed) -> None:
    assert result("reasoning", "minicpmv", text, ParserContext(template_options=options)) == expected


# Kimi K3


def k3_element(name: str, attributes: str, text: str) -> str:
    return f"<|open|>{name}{attributes}<|sep|>{text}<|close|>{name}<|sep|>"


K3_ARGUMENT = k3_element("argument", ' type="string" key="path"', "a < b <|")
K3_TAGS = k3_element("argument", ' key="tags" type="array"', "[1]")
K3_CALL = k3_element("tools", "", k3_element("call", ' index="1" tool="w"', K3_ARGUMENT + K3_TAGS))
K3_PARSED = Call("w", '{"path": "a < b <|", "tags": [1]}')


@pytest.mark.parametrize(
    ("prompt", "text", "expected"),
    [
        ("", f"r<|close|>think<|sep|>{k3_element('response', '', 'a')}{K3_CALL}", Parsed("r", "a", (K3_PARSED,))),
        ("<|open|>think<|sep|>", f"r{K3_CALL}", Parsed("r", "", (K3_PARSED,))),
        ("<|open|>response<|sep|>", "a<|close|>response<|sep|><|close|>message<|sep|>", Parsed("", "a", ())),
        ("<|close|>think<|sep|>", f"a{K3_CALL}b", Parsed("", "ab", (K3_PARSED,))),
    ],
)
def test_kimi_k3(prompt: str, text: str, expected: Parsed) -> None:
    context = ParserContext(tools=TOOLS, prompt=prompt)
    ignored = (r"<\|open\|>tools.*?<\|close\|>tools<\|sep\|>",)
    check_parser(parser_format("tool", "kimi_k3"), [Sample(text, context, ignored=ignored, parsed=expected)])


def test_kimi_k3_names_are_unescaped() -> None:
    argument = k3_element("argument", ' key="a &quot;b&quot; &amp;amp;" type="number"', "1")
    text = k3_element("tools", "", k3_element("call", ' tool="w"', argument))
    [call] = result("tool", "kimi_k3", text).calls
    assert json.loads(call.arguments) == {'a "b" &amp;': 1}


# How much work is done, and random output


LINE = 'def f(x):\n    return [x, {"k": 1}]  # "q" \\ é\n'


def _long(name: str, length: int) -> str:
    path, tags = (LINE * length)[:length], list(range(length // 8))
    return {
        "gemma4": f'<|tool_call>call:w{{path:<|"|>{path}<|"|>,tags:{tags}}}<tool_call|>',
        "functiongemma": f"<start_function_call>call:w{{path:<escape>{path}<escape>,tags:<escape>{tags}<escape>}}",
        "minimax_m3": f'{MARK}<invoke name="w">{MARK}<path>{path}{MARK}</path>{MARK}<tags>{tags}{MARK}</tags>'
        f"{MARK}</invoke>",
        "kimi_k3": k3_element(
            "tools",
            "",
            k3_element(
                "call",
                ' tool="w"',
                k3_element("argument", ' key="path" type="string"', path)
                + k3_element("argument", ' key="tags" type="array"', str(tags)),
            ),
        ),
        "muse": f'to=w<|message|><atem:invoke name="w"><atem:parameter name="path">{path}</atem:parameter>'
        f'<atem:parameter name="tags">{tags}</atem:parameter></atem:invoke>',
    }[name]


@pytest.mark.parametrize("size", [1, 4, 10**9])
@pytest.mark.parametrize("name", ["gemma4", "functiongemma", "kimi_k3", "minimax_m3", "muse"])
def test_each_character_is_looked_at_a_bounded_number_of_times(name: str, size: int) -> None:
    text = _long(name, 50_000)
    parser: Any = parser_format("tool", name)(CONTEXT)
    events = [event for at in range(0, len(text), size) for event in parser.feed(text[at : at + size])]
    found = collect([*events, *parser.finish()])
    assert [json.loads(call.arguments)["path"] for call in found.calls] == [(LINE * 50_000)[:50_000]]
    assert found.content == ""
    assert parser.examined < 3 * len(text), "text stays in the buffer and is looked at again"


FRAGMENTS = st.sampled_from(
    [
        *("<|tool_call>", "call:w{", "path:", '<|"|>', "tags:[", "]", "}", ",", "<tool_call|>", "<escape>", "x:{", ":"),
        *(
            "<start_function_call>",
            "<end_function_call>",
            MARK,
            "<tool_call>",
            '<invoke name="w">',
            "<path>",
            "</path>",
        ),
        *(
            "<item>",
            "</item>",
            "<tags>",
            "</tags>",
            "</invoke>",
            "</tool_call>",
            ">",
            "<",
            "a",
            " ",
            "\n",
            '"',
            "1",
            "é",
        ),
        *("<|start|>", "assistant", " to=", "self", "user", "w", "<|message|>", "<|eom|>", "<|eot|>", "</atem:invoke>"),
        *("<atem:function_calls>", '<atem:invoke name="w">', '<atem:parameter name="path">', "</atem:parameter>"),
        *("<|open|>", "<|close|>", "<|sep|>", 'call tool="w"', 'argument key="path" type="string"', "think", "tools"),
        *(
            "<ifm|tool_call>",
            "<ifm|arg_key>",
            "</ifm|arg_key>",
            "<ifm|arg_value>",
            "</ifm|arg_value>",
            "</ifm|tool_call>",
        ),
        *("<dots_function_call>", "</dots_function_call>", '{"name": "w", "arguments": ', "<think>", "</think>", "{"),
    ]
)
RESPONSE_TEMPLATE = {
    "start_anchor": "<|start|>",
    "fields": {
        "thinking": {"open": "<think>", "close": ["</think>", "</think>\n"]},
        "tool_calls": {
            "open_pattern": r"\s*<tool_call>",
            "close": "</tool_call>",
            "content": "json",
            "transform": {"function": "{content}"},
        },
        "content": {"close_pattern": r"\s*(?=<\|eom)"},
    },
}
TEMPLATE_CONTEXT = ParserContext(tools=TOOLS, response_template=RESPONSE_TEMPLATE)
RANDOM = ("gemma4", "functiongemma", "minimax_m3", "muse", "kimi_k3", "k2_horizon", "dots", "hf")


@pytest.mark.parametrize("name", RANDOM)
@settings(max_examples=150, deadline=None)
@given(fragments=st.lists(FRAGMENTS | st.text(max_size=4), max_size=30))
def test_random_output(name: str, fragments: list[str]) -> None:
    text = "".join(fragments)
    form = parser_format("tool", name)
    whole = parse(form(TEMPLATE_CONTEXT), text)
    for pieces in (list(text), fragments):
        parser = form(TEMPLATE_CONTEXT)
        assert collect([*(event for piece in pieces for event in parser.feed(piece)), *parser.finish()]) == whole


@pytest.mark.parametrize("name", ["gemma4", "functiongemma", "minimax_m3", "muse"])
def test_content_is_sent_as_it_arrives(name: str) -> None:
    parser = parser_format("tool", name)(CONTEXT)
    parser.feed("Some prose")
    assert parser.feed(", more") == [Content(", more")]
