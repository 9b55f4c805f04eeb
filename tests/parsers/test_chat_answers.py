"""Reasoning, content and calls in the outputs of `LLM` and `AsyncLLM`, on a model with scripted answers."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from parser_registry import registry_with_parsers
from scripted_model import TEMPLATE, TIME, WEATHER, ScriptedLLM, scripted_llm, write_checkpoint

from modelhost import AsyncLLM, CompletionOutput, SamplingParams
from modelhost.api import PluginError, ReasoningParser, RequestError, ToolParser, UnsupportedError
from modelhost.api.parsing import CallArguments, CallEnd, CallStart, Content, Event, Parser, Reasoning
from modelhost.engine.reading import OutputReader, TokenPlaces
from modelhost.plugins import Registration, Registry

ASK: list[dict[str, Any]] = [{"role": "user", "content": "weather?"}]
LONG = SamplingParams(temperature=0, max_tokens=400)
CALL = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Zürich"}}\n</tool_call>'
CALL_TIME = '<tool_call>\n{"name": "get_time", "arguments": {}}\n</tool_call>'
ANSWER = f"<think>Let me look.</think>\n\nOne moment.\n{CALL}\n{CALL_TIME}"


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_checkpoint(tmp_path_factory.mktemp("scripted") / "model")


@pytest.fixture()
def llm(checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> ScriptedLLM:
    return scripted_llm(monkeypatch, checkpoint)


def answer(llm: ScriptedLLM, params: SamplingParams = LONG, **options: Any) -> CompletionOutput:
    return llm.chat(ASK, params, **options)[0].outputs[0]


def calls(output: CompletionOutput) -> list[tuple[str, str]]:
    return [(call.function.name, call.function.arguments) for call in output.tool_calls]


def without_ids(events: Sequence[Event]) -> list[Event]:
    return [CallStart(event.index, event.name) if isinstance(event, CallStart) else event for event in events]


def test_reasoning_content_and_calls(llm: ScriptedLLM) -> None:
    output = answer(llm.says(ANSWER), tools=[WEATHER, TIME])
    assert (output.reasoning, output.content) == ("Let me look.", "\n\nOne moment.\n")
    assert calls(output) == [("get_weather", '{"city": "Zürich"}'), ("get_time", "{}")]
    assert output.finish_reason == "tool_calls"
    assert output.text == ANSWER
    first, second = (call.id for call in output.tool_calls)
    assert re.fullmatch(r"call_[0-9a-f]{24}", first)
    assert first != second
    assert {call.type for call in output.tool_calls} == {"function"}


def test_text_alone(llm: ScriptedLLM) -> None:
    output = answer(llm.says("<think></think>Hello"))
    assert (output.reasoning, output.content, output.tool_calls) == (None, "Hello", [])
    assert output.finish_reason == "stop"


def test_generation_without_a_chat_is_not_read(llm: ScriptedLLM) -> None:
    output = llm.says(ANSWER).generate("hi", LONG)[0].outputs[0]
    assert (output.reasoning, output.content, output.tool_calls, output.events) == (None, None, [], [])
    assert output.text == ANSWER.replace("<think>", "").replace("</think>", "").replace("<tool_call>", "").replace(
        "</tool_call>", ""
    )


def test_streamed_events_add_up_to_the_output(llm: ScriptedLLM) -> None:
    llm.says(ANSWER)
    whole = answer(llm, tools=[WEATHER, TIME])
    seen: list[Event] = []
    steps = 0
    for output in llm.stream(messages=ASK, sampling_params=LONG, tools=[WEATHER, TIME]):
        seen += output.outputs[0].events
        steps += bool(output.outputs[0].events)
        streamed = output.outputs[0]
    assert steps > 30, "arguments are streamed as they arrive"
    assert "".join(event.text for event in seen if isinstance(event, Reasoning)) == whole.reasoning
    assert "".join(event.text for event in seen if isinstance(event, Content)) == whole.content
    starts = [event for event in seen if isinstance(event, CallStart)]
    assert [(start.index, start.name) for start in starts] == [(0, "get_weather"), (1, "get_time")]
    assert [start.id for start in starts] == [call.id for call in streamed.tool_calls]
    arguments = ["".join(e.text for e in seen if isinstance(e, CallArguments) and e.index == i) for i in (0, 1)]
    assert list(zip(("get_weather", "get_time"), arguments, strict=True)) == calls(whole) == calls(streamed)
    assert [event.index for event in seen if isinstance(event, CallEnd)] == [0, 1]


def test_asynchronous_outputs_are_snapshots(checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scripted = scripted_llm(monkeypatch, checkpoint)

    async def run() -> list[CompletionOutput]:
        engine = AsyncLLM(
            str(checkpoint),
            registry=registry_with_parsers(),
            backend="reference",
            enable_prefix_caching=False,
            reasoning_parser="qwen3",
        )
        async with engine:
            engine.model.engine.executable.script = scripted.says(ANSWER).executable.script
            stream = engine.chat(ASK, LONG, tools=[WEATHER, TIME])
            return [output.outputs[0] async for output in stream]

    outputs = asyncio.run(run())
    assert calls(outputs[-1]) == [("get_weather", '{"city": "Zürich"}'), ("get_time", "{}")]
    assert outputs[-1].finish_reason == "tool_calls"
    lengths = [sum(len(arguments) for _, arguments in calls(output)) for output in outputs]
    assert lengths == sorted(lengths)
    assert lengths[0] == 0


def test_each_of_several_answers_has_a_parser(llm: ScriptedLLM) -> None:
    outputs = llm.says(CALL).chat(ASK, SamplingParams(n=3, top_k=1, max_tokens=200), tools=[WEATHER])[0].outputs
    assert [calls(output) for output in outputs] == [[("get_weather", '{"city": "Zürich"}')]] * 3
    assert len({output.tool_calls[0].id for output in outputs}) == 3


def test_reasoning_can_be_left_out(llm: ScriptedLLM) -> None:
    output = answer(llm.says(ANSWER), tools=[WEATHER], include_reasoning=False)
    assert (output.reasoning, output.content) == (None, "\n\nOne moment.\n")
    assert output.finish_reason == "tool_calls"


def test_template_options_reach_template_and_parser(llm: ScriptedLLM) -> None:
    llm.says("<think>is text here")
    result = llm.chat(ASK, LONG, chat_template_kwargs={"enable_thinking": False})[0]
    assert result.prompt is not None
    assert result.prompt.endswith("<think></think>")
    assert (result.outputs[0].reasoning, result.outputs[0].content) == (None, "<think>is text here")


def test_first_call_only(llm: ScriptedLLM) -> None:
    llm.says(ANSWER)
    output = answer(llm, tools=[WEATHER, TIME], parallel_tool_calls=False)
    assert calls(output) == [("get_weather", '{"city": "Zürich"}')]
    streamed = list(llm.stream(messages=ASK, sampling_params=LONG, tools=[WEATHER, TIME], parallel_tool_calls=False))
    assert calls(streamed[-1].outputs[0]) == calls(output)


def test_no_calls_with_tool_choice_none(llm: ScriptedLLM) -> None:
    result = llm.says(CALL).chat(ASK, LONG, tools=[WEATHER], tool_choice="none")[0]
    assert result.prompt is not None
    assert "get_weather" in result.prompt
    output = result.outputs[0]
    assert (output.tool_calls, output.finish_reason) == ([], "stop")
    assert output.content == CALL


def test_answer_that_is_cut_off_within_a_call(llm: ScriptedLLM) -> None:
    output = answer(llm.says(CALL), SamplingParams(temperature=0, max_tokens=55), tools=[WEATHER])
    assert output.finish_reason == "length"
    [(name, arguments)] = calls(output)
    assert name == "get_weather"
    with pytest.raises(ValueError, match=r"Unterminated|Expecting"):
        json.loads(arguments)


def test_stop_string_ends_the_call_before_it(llm: ScriptedLLM) -> None:
    params = SamplingParams(temperature=0, max_tokens=200, stop=["rich"])
    output = answer(llm.says(CALL), params, tools=[WEATHER])
    assert calls(output) == [("get_weather", '{"city": "Zü')]
    assert (output.finish_reason, output.stop_reason) == ("tool_calls", "rich")


def test_aborted_answer_has_what_was_held_back(llm: ScriptedLLM) -> None:
    llm.says("abc <tool_")
    request = llm.model.chat(ASK, LONG, tools=[WEATHER])
    engine = llm.model.engine
    engine.add_request("r", request.prompt.token_ids, request.params, readers=request.readers)
    for _ in range(8):
        engine.step()
    last = engine.abort("r")
    assert last is not None
    assert last.outputs[0].finish_reason == "abort"
    assert (last.outputs[0].reasoning or "") + (last.outputs[0].content or "") == last.outputs[0].text


def test_calls_in_the_history_reach_the_template_as_objects(llm: ScriptedLLM) -> None:
    output = answer(llm.says(CALL), tools=[WEATHER])
    said = {
        "role": "assistant",
        "content": "",
        "tool_calls": [
            {"id": call.id, "type": "function", "function": {"name": "f", "arguments": call.function.arguments}}
            for call in output.tool_calls
        ],
    }
    prompt = llm.chat([*ASK, said, {"role": "user", "content": "and?"}], LONG)[0].prompt
    assert prompt is not None
    assert "<|assistant|>f Zürich<|user|>and?" in prompt


def test_tools_without_a_parser(checkpoint: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    plain = write_checkpoint(tmp_path / "plain", template=TEMPLATE.replace("<args-json-object>", "{}"))
    llm = scripted_llm(monkeypatch, plain)
    with pytest.raises(UnsupportedError) as raised:
        answer(llm.says(CALL), tools=[WEATHER])
    assert str(raised.value) == (
        "tools were given, but the model has no tool parser: no installed tool parser fits its chat template. "
        "Name one with --tool-call-parser, or use --tool-call-parser none to get calls as text"
    )
    off = scripted_llm(monkeypatch, checkpoint, tool_call_parser="none")
    output = answer(off.says("<think></think>" + CALL), tools=[WEATHER])
    assert (output.content, output.tool_calls, output.finish_reason) == (CALL, [], "stop")


def test_a_name_that_cannot_be_used_is_an_error_at_once(checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UnsupportedError) as raised:
        scripted_llm(monkeypatch, checkpoint, tool_call_parser="jamba")
    assert str(raised.value).endswith(
        "was asked for and cannot be used: the tokenizer has no token '<tool_calls>' and '</tool_calls>', which its "
        "format needs"
    )
    with pytest.raises(PluginError, match="no installed plugin provides reasoning parser 'qwen'"):
        scripted_llm(monkeypatch, checkpoint, reasoning_parser="qwen")


# Forced choices


def test_named_function(llm: ScriptedLLM) -> None:
    llm.says(' "city": "Rome"}}\n</tool_call>' + CALL_TIME)
    no_thinking = {"enable_thinking": False}
    choice = {"type": "function", "function": {"name": "get_weather"}}
    result = llm.chat(ASK, LONG, tools=[WEATHER, TIME], tool_choice=choice, chat_template_kwargs=no_thinking)[0]
    assert result.prompt is not None
    assert result.prompt.endswith('<think></think><tool_call>\n{"name": "get_weather", "arguments": {')
    output = result.outputs[0]
    assert calls(output) == [("get_weather", '{ "city": "Rome"}')]
    assert (output.content, output.finish_reason) == (None, "stop")
    llm.says("nonsense")
    broken = answer(llm, tools=[WEATHER], tool_choice=choice, chat_template_kwargs=no_thinking)
    assert calls(broken) == [("get_weather", "{nonsense")], "the call is made whatever the model writes"


def test_required_with_one_tool(llm: ScriptedLLM) -> None:
    llm.says('"days": 2}}\n</tool_call>')
    options = {"tools": [WEATHER], "tool_choice": "required", "chat_template_kwargs": {"enable_thinking": False}}
    output = answer(llm, **options)
    assert calls(output) == [("get_weather", '{"days": 2}')]
    assert output.finish_reason == "tool_calls"
    streamed = [
        event for one in llm.stream(messages=ASK, sampling_params=LONG, **options) for event in one.outputs[0].events
    ]
    assert isinstance(streamed[0], CallStart)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"tools": [WEATHER, TIME], "tool_choice": "required"},
            "tool_choice 'required': this version of modelhost cannot hold generation to a grammar, so a choice among "
            "2 tools cannot be forced; name one function, or use 'auto'",
        ),
        (
            {"tools": [WEATHER], "tool_choice": "required"},
            "tool_choice 'required': this version of modelhost cannot hold generation to a grammar, and this model "
            "reasons before it calls; switch reasoning off with chat_template_kwargs if its template can, or use "
            "'auto'",
        ),
        (
            {"tools": [{**TIME, "function": {"name": "f", "strict": True}}]},
            "tools[0].function.strict: this version of modelhost cannot hold generation to a grammar, so arguments "
            "cannot be promised to follow the schema; leave it out",
        ),
    ],
)
def test_what_needs_a_grammar_is_refused(llm: ScriptedLLM, options: dict[str, Any], message: str) -> None:
    with pytest.raises(UnsupportedError) as raised:
        answer(llm, **options)
    assert str(raised.value) == message


def test_format_that_does_not_state_how_a_call_begins(checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    llm = scripted_llm(monkeypatch, checkpoint, tool_call_parser="pythonic", reasoning_parser="none")
    with pytest.raises(UnsupportedError) as raised:
        answer(llm, tools=[TIME], tool_choice="required")
    assert str(raised.value) == (
        "tool_choice 'required': this version of modelhost cannot hold generation to a grammar, and tool parser "
        "'pythonic' (modelhost-llama-parsers 0.1.0) does not state how a call begins; use 'auto'"
    )


# Options


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tool": []}, "there is no chat option 'tool'; did you mean tools?"),
        ({"chat_template_kwargs": ["x"]}, "chat_template_kwargs: must be a mapping of names to values, got ['x']"),
        ({"parallel_tool_calls": "no"}, "parallel_tool_calls: must be true or false, got 'no'"),
    ],
)
def test_options_that_are_not_allowed(llm: ScriptedLLM, options: dict[str, Any], message: str) -> None:
    with pytest.raises(RequestError) as raised:
        answer(llm, **options)
    assert str(raised.value) == message


def test_chat_options_of_a_prompt(llm: ScriptedLLM) -> None:
    with pytest.raises(RequestError) as raised:
        next(llm.stream("hi", LONG, tools=[TIME], tool_choice="none"))
    assert str(raised.value) == "tools, tool_choice: chat options need messages, and a prompt was given"


# Token ids


class Recorder:
    """A parser that keeps what it was fed."""

    def __init__(self) -> None:
        self.fed: list[tuple[str, list[int]]] = []

    def feed(self, text: str, token_ids: Sequence[int] = ()) -> list[Event]:
        self.fed.append((text, list(token_ids)))
        return [Content(text)]

    def finish(self) -> list[Event]:
        return []


def with_parser(llm: ScriptedLLM, parser: Parser, params: SamplingParams = LONG) -> CompletionOutput:
    request = llm.model.chat(ASK, params)
    engine = llm.model.engine
    engine.add_request("r", request.prompt.token_ids, params, readers=[OutputReader(parser, "parser")])
    output = None
    while engine.busy:
        [output] = engine.step()
    assert output is not None
    if output.error is not None:
        raise output.error
    return output.outputs[0]


def test_parsers_get_the_tokens_of_each_piece(llm: ScriptedLLM) -> None:
    recorder = Recorder()
    text = "aé<tool_call>b"
    output = with_parser(
        llm.says(text), recorder, SamplingParams(temperature=0, skip_special_tokens=False, max_tokens=50)
    )
    tokenizer = llm.get_tokenizer()
    assert "".join(piece for piece, _ in recorder.fed) == text
    assert [token for _, tokens in recorder.fed for token in tokens] == output.token_ids[:-1]
    for piece, tokens in recorder.fed:
        assert tokenizer.decode(tokens, skip_special_tokens=False) == piece
    assert len(recorder.fed) == 4


def test_tokens_of_text_that_is_held_back() -> None:
    places = TokenPlaces()
    places.push(1, "ab")
    places.push(2, "")
    places.push(3, "cd")
    assert places.take(1) == []
    assert places.take(2) == [1]
    assert places.take(3) == []
    assert places.take(4) == [2, 3]


def test_stop_strings_hold_tokens_back_with_their_text(llm: ScriptedLLM) -> None:
    recorder = Recorder()
    params = SamplingParams(temperature=0, max_tokens=50, stop=["cdX"])
    output = with_parser(llm.says("abcde"), recorder, params)
    assert output.content == "abcde"
    assert recorder.fed == [(letter, [token]) for letter, token in zip("ab", output.token_ids[:2], strict=True)] + [
        ("cde", output.token_ids[2:5])
    ]


class Failing(Recorder):
    def feed(self, text: str, token_ids: Sequence[int] = ()) -> list[Event]:
        if "c" in text:
            raise ValueError("no c")
        return super().feed(text, token_ids)


def test_parser_that_raises_fails_its_request_only(llm: ScriptedLLM) -> None:
    with pytest.raises(PluginError) as raised:
        with_parser(llm.says("abc"), Failing())
    assert str(raised.value) == (
        "parser failed on this output: ValueError: no c. This is a defect of the parser; to go on without it, use "
        "--tool-call-parser none or --reasoning-parser none"
    )
    assert not llm.model.engine.busy
    assert answer(llm.says("abc"), chat_template_kwargs={"enable_thinking": False}).content == "abc"


def test_target_that_is_no_format(checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record = ToolParser("odd", target="json:__doc__")
    odd = Registration(record, "modelhost-odd", "1.0", "odd", "json", "odd.py", (1, 0))
    llm = scripted_llm(monkeypatch, checkpoint)
    llm.model.registry = Registry((), [odd, *registry_with_parsers().all(ReasoningParser)])
    llm.model.__dict__.pop("tool_parser", None)
    llm.model.config = llm.model.config.model_copy(update={"tool_call_parser": "odd"})
    with pytest.raises(PluginError, match=r"modelhost-odd 1\.0: json:__doc__ must be a format, got "):
        answer(llm, tools=[TIME])
