"""The engines themselves: scanners against the standard library, held-back markers, edges and the work they do."""

from __future__ import annotations

import ast
import json
import sys
from collections.abc import Callable
from typing import Any

import pytest
from golden_cases import parser_format
from hypothesis import given, settings
from hypothesis import strategies as st

from modelhost.api import PluginError, ReasoningParser, ToolParser
from modelhost.api.parsing import (
    Block,
    Blocks,
    ByRequest,
    Call,
    CallArguments,
    CallSyntax,
    Content,
    EitherCalls,
    HeaderCalls,
    JsonCalls,
    JsonScanner,
    Markers,
    Parsed,
    Parser,
    ParserContext,
    PythonLiteral,
    ReasoningTags,
    Tag,
    TaggedCalls,
    ToolChoice,
    adjust_request,
    collect,
    complete_json,
    output_parser,
    parse,
    read_partial_json,
    required_calls,
    typed_value,
)
from modelhost.testing.parser import Sample, check_parser, check_result, check_splits

WEATHER = {"type": "function", "function": {"name": "get_weather"}}
HERMES = JsonCalls(open=("<tool_call>",), close=("</tool_call>",))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(VALUES, st.booleans(), st.sampled_from([None, 2]))
def test_scanner_follows_every_json_value(value: Any, ascii_only: bool, indent: int | None) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only, indent=indent)
    scanner = JsonScanner()
    assert scanner.scan(text + " ]", 0) == len(text)
    assert scanner.done and scanner.valid


@given(VALUES, st.data())
def test_scanner_finds_a_mistake_wherever_the_text_is_cut(value: Any, data: st.DataObject) -> None:
    text = json.dumps(value)
    place = data.draw(st.integers(0, len(text)))
    text = text[:place] + data.draw(st.sampled_from(list('{}[]",:\\x1\n'))) + text[place:]
    whole, cut = JsonScanner(), JsonScanner()
    end = whole.scan(text, 0)
    at = 0
    while at < len(text) and cut.valid and not cut.done:
        at = cut.scan(text, at, at + 1)
    assert (at, cut.valid, cut.done) == (end, whole.valid, whole.done)
    whole.finish()
    if whole.valid and whole.done:
        json.loads(text[:end])


@given(VALUES, st.data())
def test_cut_off_json_is_read(value: Any, data: st.DataObject) -> None:
    text = json.dumps(value)
    place = data.draw(st.integers(0, len(text)))
    try:
        completed = complete_json(text[:place])
    except ValueError:
        return
    json.loads(completed)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": [1, 2', {"a": [1]}),
        ('{"a": "x\\u00', {"a": "x"}),
        ('{"a": {"b": true, "c', {"a": {"b": True}}),
        ('{"a": {}, "b": [', {"a": {}, "b": []}),
        ("[", []),
    ],
)
def test_partial_json(text: str, value: Any) -> None:
    assert read_partial_json(text) == value


@pytest.mark.parametrize("text", ["", "  ", "x", '{"a" 1'])
def test_text_that_begins_no_json_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match="JSON value"):
        complete_json(text)


@given(VALUES)
def test_python_literals_become_json(value: Any) -> None:
    text = repr(value)
    literal = PythonLiteral()
    end, converted = literal.convert(text + ")", 0)
    assert literal.valid and literal.done and end == len(text)
    assert json.loads(converted) == ast.literal_eval(text)


@given(st.lists(st.text("ab<>", min_size=1, max_size=5), min_size=1, max_size=4), st.text("ab<>", max_size=30))
def test_markers_are_found_at_the_same_places_in_pieces(texts: list[str], text: str) -> None:
    markers = Markers(texts)

    def found(pieces: list[str]) -> list[tuple[int, str]]:
        buffer, offset, places = "", 0, []
        for index, piece in enumerate(pieces):
            buffer += piece
            while True:
                end, marker = markers.find(buffer, 0, index == len(pieces) - 1)
                if marker is None:
                    offset, buffer = offset + end, buffer[end:]
                    break
                places.append((offset + end, marker))
                offset, buffer = offset + end + len(marker), buffer[end + len(marker) :]
        return places

    assert found([*text, ""]) == found([text])


def test_arguments_are_sent_as_they_arrive() -> None:
    parser = HERMES(ParserContext())
    assert parser.feed('<tool_call>{"name": "f", "arguments": ')[:1] == []
    events = parser.feed('{"a": "x')
    assert [event for event in events if isinstance(event, CallArguments)] == [CallArguments(0, '{"a": "x')]
    assert parser.feed("y") == [CallArguments(0, "y")]


def test_content_is_held_only_while_it_may_become_a_marker() -> None:
    parser = HERMES(ParserContext())
    assert parser.feed("a < b <tool") == [Content("a < b ")]
    assert parser.feed("box") == [Content("<toolbox")]


@pytest.mark.parametrize(
    ("arguments", "sent"),
    [('{"a": 1}', '{"a": 1}'), ('"{\\"a\\": 1}"', '{"a": 1}'), ("null", "{}"), ('{"a": "</tool_call>"}', None)],
)
def test_arguments_of_json_calls(arguments: str, sent: str | None) -> None:
    text = f'<tool_call>{{"name": "f", "arguments": {arguments}}}</tool_call>'
    assert parse(HERMES(ParserContext()), text) == Parsed("", "", (Call("f", sent or arguments),))


@pytest.mark.parametrize("block", ['{"name": "f", "argumens": {}}', '{"name": 5, "arguments": {}}', "[]", "{}", ""])
def test_blocks_that_are_no_call_are_content(block: str) -> None:
    text = f"x <tool_call>{block}</tool_call> y"
    assert parse(HERMES(ParserContext()), text) == Parsed("", text, ())


def test_a_broken_call_does_not_swallow_the_next() -> None:
    good = '<tool_call>{"name": "g", "arguments": {}}</tool_call>'
    result = parse(HERMES(ParserContext()), '<tool_call>{"name": "f", "arguments": {"a": "b" c"}</tool_call>' + good)
    assert result.calls == (Call("f", '{"a": "b" c"}'), Call("g", "{}"))


def test_blocks() -> None:
    form = Blocks(
        blocks=(
            Block(open=("<think>",), close=("</think>",), holds="reasoning"),
            Block(open=("<say>",), close=("</say>",)),
            Block(open=("<act>",), close=("</act>",), holds=JsonCalls(array=True, bare="start")),
            Block(open=("<note>",), close=("</note>",), holds="nothing"),
        ),
        begins=0,
    )
    text = 'hm</think><note>no</note><say>Hi</say><act>[{"name": "f", "arguments": {"a": 1}}]</act><act>[{"name": "g",'
    expected = Parsed("hm", 'Hi[{"name": "g",', (Call("f", '{"a": 1}'),))
    assert parse(form(ParserContext()), text) == expected
    said = parse(form(ParserContext(prompt="<say>")), "Hi")
    assert said == Parsed("", "Hi", ())
    check_parser(form, [Sample(text.replace("<note>no</note>", ""))])


@pytest.mark.parametrize(
    ("prompt", "text", "result"),
    [
        ("", "<h>name<call>x</call>a", Parsed("", "<call>xa", ())),
        ("<h>", "name<call>x", Parsed("", "<call>x", ())),
        ("", "<h>kept<text>a", Parsed("", "kepta", ())),
        ("", "<h>kept", Parsed("", "kept", ())),
        ("", "a<h>b<h>c<call>d", Parsed("", "ab<call>d", ())),
    ],
)
def test_headers_of_blocks(prompt: str, text: str, result: Parsed) -> None:
    blocks = (
        Block(open=("<text>",)),
        Block(open=("<call>",), close=("</call>",), holds="marked content", drops_header=True),
    )
    form = Blocks(blocks=blocks, header="<h>")
    sample = Sample(text, ParserContext(prompt=prompt), parsed=result)
    check_result(form, sample)
    check_splits(form, sample)


EITHER = EitherCalls(
    marker=("[c]",),
    begins={"{": JsonCalls(open=("[c]",), close=("[/c]",))},
    otherwise=HeaderCalls(call=("[c]",), arguments=("=",), end=("[/c]",), syntax=CallSyntax("[c]NAME=ARGUMENTS[/c]")),
)


@pytest.mark.parametrize("call", ['f={"a": 1}', '{"name": "f", "arguments": {"a": 1}}'])
def test_what_follows_the_marker_says_which_notation_calls_are_in(call: str) -> None:
    text = f"Hi [c] {call}[/c] [c]{call}[/c]"
    check_parser(EITHER, [Sample(text, parsed=Parsed("", "Hi ", (Call("f", '{"a": 1}'),) * 2)), Sample("Hi [c")])
    adjustment = adjust_request(EITHER, ParserContext(tools=[WEATHER]), ToolChoice("required"))
    assert adjustment.opening == "[c]get_weather={"


def test_a_format_may_depend_on_the_request() -> None:
    def choose(context: ParserContext) -> JsonCalls:
        tag = context.template_options["tag"]
        return JsonCalls(open=(tag,), syntax=CallSyntax(f'{tag}{{"name": "NAME", "arguments": ARGUMENTS}}'))

    form = ByRequest(choose)
    context = ParserContext(tools=[WEATHER], template_options={"tag": "<t>"})
    opening = adjust_request(form, context, ToolChoice("required")).opening
    assert opening == '<t>{"name": "get_weather", "arguments": {'
    assert parse(form(context), opening + "}}").calls == (Call("get_weather", "{}"),)


@pytest.mark.parametrize(
    ("schema", "stated", "value", "sent"),
    [
        (None, "integer", "5", 5),
        (None, "any", "5", "5"),
        (None, None, "5", "5"),
        ({"type": "string"}, "integer", "5", "5"),
        ({"type": ["string", "integer"]}, "string", "5", "5"),
        ({"type": ["string", "integer"]}, "integer", "5", 5),
    ],
)
def test_a_stated_type_decides_where_the_schema_does_not(
    schema: Any, stated: str | None, value: str, sent: Any
) -> None:
    form = TaggedCalls(
        call=Tag("<f "),
        call_end=("</f>",),
        parameter=Tag("<p ", header=r"(?P<name>\w+)(?: (?P<type>\w+))?"),
        parameter_end=("</p>",),
    )
    properties = {} if schema is None else {"a": schema}
    tools = [{"name": "g", "parameters": {"properties": properties}}]
    tag = f"<p a {stated}>" if stated else "<p a>"
    [call] = parse(form(ParserContext(tools=tools)), f"<f g>{tag}{value}</p></f>").calls
    assert json.loads(call.arguments) == {"a": sent}


@pytest.mark.parametrize("prompt", ["", "<r>x</r>"])
def test_newlines_before_the_answer_are_left_out(prompt: str) -> None:
    form = ReasoningTags(start=("<r>",), end=("</r>",), strip_content="newlines")
    text = ("" if prompt else "<r>x</r>") + "\n\n  a\n"
    result = Parsed("" if prompt else "x", "  a\n", ())
    check_parser(form, [Sample(text, ParserContext(prompt=prompt), parsed=result)])


def test_header_calls_take_the_id_and_the_name() -> None:
    form = HeaderCalls(call=("<c>",), arguments=("<a>",), end=("</c>",), header=r"(?P<id>f\.(?P<name>\w+):\d+)")
    assert parse(form(ParserContext()), "<c>f.x:0<a>{}</c>") == Parsed("", "", (Call("x", "{}", "f.x:0"),))
    assert parse(form(ParserContext()), "<c>x<a>{}</c>") == Parsed("", "<c>x<a>{}</c>", ())


@pytest.mark.parametrize(
    ("prompt", "text", "result"),
    [
        ("<think>\n", "r</think>a", Parsed("r", "a", ())),
        ("<think>\n\n</think>\n\n", "a", Parsed("", "a", ())),
        ("", "a", Parsed("", "a", ())),
        ("", "<think>r</think>a", Parsed("r", "a", ())),
        ("", "<think>r", Parsed("r", "", ())),
    ],
)
def test_reasoning_may_begin_in_the_prompt(prompt: str, text: str, result: Parsed) -> None:
    form = ReasoningTags(start=("<think>",), end=("</think>",), begins="content")
    assert parse(form(ParserContext(prompt=prompt)), text) == result


def test_a_prompt_may_end_with_a_marker_that_ends_with_a_newline() -> None:
    form = ReasoningTags(start=("<channel>thought\n",), end=("<end>\n",), begins="content")
    assert parse(form(ParserContext(prompt="<channel>thought\n")), "r<end>\na") == Parsed("r", "a", ())
    assert parse(form(ParserContext(prompt="<channel>thought\n<end>\n")), "a") == Parsed("", "a", ())


def test_required_calls_are_read_from_plain_json() -> None:
    text = '[{"name": "f", "parameters": {"a": 1}}, {"name": "g", "parameters": {}}]'
    assert parse(required_calls(ParserContext()), text).calls == (Call("f", '{"a": 1}'), Call("g", "{}"))


def test_without_formats_all_text_is_content() -> None:
    assert parse(output_parser(ParserContext()), "<think>x") == Parsed("", "<think>x", ())


@pytest.mark.parametrize(
    ("text", "schema", "value"),
    [
        ("5", {"type": "integer"}, 5),
        ("5", {"type": "string"}, "5"),
        ("5", {}, "5"),
        ("5.5", {"type": "integer"}, 5.5),
        ("none", {"type": ["string", "null"]}, None),
        ("1", {"type": "boolean"}, True),
        ('{"a": "1"}', {"type": "object", "properties": {"a": {"type": "integer"}}}, {"a": 1}),
        ('["1"]', {"type": "array", "items": {"type": "number"}}, [1]),
        ("inf", {"type": "number"}, "inf"),
        ("x", {"enum": ["x", 1]}, "x"),
        ("[1", {"type": "array"}, "[1"),
        ("9" * 5000, {"type": "integer"}, "9" * 5000),
        ("[" * 9999, {"type": "array"}, "[" * 9999),
    ],
)
def test_values_get_the_types_of_the_schema(text: str, schema: Any, value: Any) -> None:
    assert typed_value(text, schema) == value


def test_records_want_tuples_of_texts() -> None:
    with pytest.raises(PluginError, match=r"tool parser 'x': markers must be a tuple of texts, got '<a>'"):
        ToolParser("x", "a.b:c", markers="<a>")  # type: ignore[arg-type]
    with pytest.raises(PluginError, match=r"reasoning parser 'x': template must be a tuple of texts, got \(1,\)"):
        ReasoningParser("x", "a.b:c", template=(1,))  # type: ignore[arg-type]


# How much work is done


CONTENT = 'def f(x):\n    return [x, {"k": 1}]  # "q" < \\ é\n'
TOOL = {"name": "w", "parameters": {"properties": {"path": {"type": "string"}, "tags": {"type": "array"}}}}
CONTEXT = ParserContext(tools=[TOOL])


def _json(length: int) -> str:
    half = length // 2
    tags = list(range(half // 8))
    return json.dumps({"path": (CONTENT * (half // len(CONTENT) + 1))[:half], "tags": tags})


def _python(length: int) -> str:
    return ", ".join(f"{key}={value!r}" for key, value in json.loads(_json(length)).items())


def _tags(length: int) -> str:
    values = json.loads(_json(length))
    return f"<parameter=path>\n{values['path']}\n</parameter>\n<parameter=tags>\n{values['tags']}\n</parameter>\n"


LONG_CALLS: dict[str, Callable[[int], str]] = {
    "hermes": lambda length: f'<tool_call>{{"name": "w", "arguments": {_json(length)}}}</tool_call>',
    "jamba": lambda length: f'<tool_calls>[{{"arguments": {_json(length)}, "name": "w"}}]</tool_calls>',
    "llama3_json": lambda length: f'{{"name": "w", "parameters": {_json(length)}}}',
    "pythonic": lambda length: f"[w({_python(length)})]",
    "deepseek_v31": lambda length: f"<｜tool▁call▁begin｜>w<｜tool▁sep｜>{_json(length)}<｜tool▁call▁end｜>",
    "qwen3_coder": lambda length: f"<tool_call><function=w>{_tags(length)}</function></tool_call>",
    "openai": lambda length: f"<|channel|>commentary to=functions.w<|message|>{_json(length)}<|call|>",
}


def _calls_made(parser: Parser, pieces: list[str]) -> tuple[int, Parsed]:
    """Number of Python and C functions called while the pieces are fed, and the result."""
    count = 0

    def profile(_frame: object, event: str, _argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    events = []
    sys.setprofile(profile)
    try:
        for piece in pieces:
            events += parser.feed(piece)
        events += parser.finish()
    finally:
        sys.setprofile(None)
    return count, collect(events)


@pytest.mark.parametrize("size", [1, 4, 10**9])
@pytest.mark.parametrize("name", LONG_CALLS)
def test_work_is_proportional_to_the_length_of_a_call(name: str, size: int) -> None:
    counts = []
    for length in (10_000, 100_000):
        text = LONG_CALLS[name](length)
        parser: Any = parser_format("tool", name)(CONTEXT)
        count, result = _calls_made(parser, [text[at : at + size] for at in range(0, len(text), size)])
        assert [json.loads(call.arguments) for call in result.calls] == [json.loads(_json(length))]
        assert result.content == ""
        assert parser.examined < 3 * len(text), "text stays in the buffer and is looked at again"
        counts.append(count / len(text))
    assert counts[1] < 1.2 * counts[0] + 0.01


# Random output


FRAGMENTS = st.sampled_from(
    [
        *("<tool_call>", "</tool_call>", "<tool_calls>", "</tool_calls>", "<function=", "<parameter=", "</parameter>"),
        *(
            "</function>",
            ">",
            "get_weather",
            "\n",
            " ",
            '{"name": "f", "arguments": {',
            '"a": "b"',
            "}",
            "}}",
            "[",
            "]",
        ),
        *('{"name": "f", "parameters": ', "<|python_tag|>", "[f(a=1)", "(x='y'", ")", ",", '"', "'", "\\", "é🌍", "<"),
        *("<think>", "</think>", "<|channel|>", "analysis", "<|message|>", "<|end|>", "<|call|>", " to=functions.f"),
        *(
            "<｜tool▁calls▁begin｜>",
            "<｜tool▁call▁begin｜>",
            "<｜tool▁sep｜>",
            "\n```json",
            "```",
            "<｜tool▁call▁end｜>",
        ),
        *(
            '<｜DSML｜invoke name="f">',
            '<｜DSML｜parameter name="a" string="true">',
            "</｜DSML｜parameter>",
            "null",
            "\x00",
        ),
    ]
)
FUZZED = [("tool", name) for name in (*LONG_CALLS, "deepseek_v3", "deepseek_v32", "llama4_pythonic")]


@pytest.mark.parametrize(("kind", "name"), [*FUZZED, ("reasoning", "qwen3"), ("reasoning", "deepseek_v4")])
@settings(max_examples=100, deadline=None)
@given(fragments=st.lists(FRAGMENTS | st.text(max_size=4), max_size=25), data=st.data())
def test_random_output(kind: str, name: str, fragments: list[str], data: st.DataObject) -> None:
    text = "".join(fragments)
    form = parser_format(kind, name)
    whole = parse(form(ParserContext()), text)
    for pieces in (list(text), fragments):
        parser = form(ParserContext())
        assert collect([*(e for piece in pieces for e in parser.feed(piece)), *parser.finish()]) == whole
    plain = data.draw(st.text(st.characters(exclude_characters="<[{at`")).filter(lambda text: "to=" not in text))
    assert parse(output_parser(ParserContext(), tools=form if kind == "tool" else None), plain).content == plain
