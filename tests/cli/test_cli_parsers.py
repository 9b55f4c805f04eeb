"""Reasoning and tool calls on the command line, with a model and a package of parsers made for it."""

from __future__ import annotations

import io
import json
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from modelhost.cli.shown_answer import ShownAnswer
from modelhost.engine.outputs import CompletionOutput
from modelhost.parsing.events import CallArguments, CallEnd, CallStart, Content, Event, Reasoning

from . import conftest
from .conftest import CHAT_TEMPLATE, Cli, Result, install, run_process, write_checkpoint
from .terminal import Terminal

REFERENCE = ("--backend", "reference")
REASONS, ANSWERS, CALLS = "<think>Hmm", "</think>Hi", '<call>{"name": "look", "arguments": {"x": 1}}'
PLUGIN = """
from modelhost.api import ReasoningParser, ToolParser, hookimpl

API = (1, 0)


@hookimpl
def modelhost_tool_parsers():
    yield ToolParser("toy", target="toy_formats:calls", template=("<call>",), keep_special_tokens=True)


@hookimpl
def modelhost_reasoning_parsers():
    yield ReasoningParser("toy_thoughts", target="toy_formats:thoughts", template=("<toy-think>",))
"""
FORMATS = """
from modelhost.api.parsing import JsonCalls, ReasoningTags

calls = JsonCalls(open=("<call>",))
thoughts = ReasoningTags(start=("<think>",), end=("</think>",), begins="content")
"""
TOOL = {"type": "function", "function": {"name": "look"}}


@pytest.fixture()
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A model that answers every chat with a thought, a word and a call; its parsers are installed."""
    chain = ("<|assistant|>", REASONS, ANSWERS, CALLS, "<|end|>")
    monkeypatch.setattr(conftest, "SPECIAL", (*conftest.SPECIAL, REASONS, ANSWERS, CALLS))
    monkeypatch.setattr(conftest, "successors", lambda: dict(pairwise(chain)))
    site = tmp_path / "site"
    site.mkdir()
    install(site, "toy-parsers", "toy_parsers", PLUGIN)
    (site / "toy_formats.py").write_text(FORMATS)
    monkeypatch.setenv("PYTHONPATH", str(site))
    template = CHAT_TEMPLATE + "{# <call> <toy-think> #}"
    return str(write_checkpoint(tmp_path / "model", chat_template=template))


@pytest.fixture()
def tools(tmp_path: Path) -> str:
    file = tmp_path / "tools.json"
    file.write_text(json.dumps([TOOL]))
    return str(file)


def run(*arguments: str) -> Result:
    return run_process("run", *arguments, *REFERENCE)


def test_what_is_piped_on_is_the_answer(model: str, tools: str) -> None:
    result = run(model, "hello", "--tools", tools)
    assert (result.code, result.out, result.err) == (0, 'Hi\n[tool call] look({"x": 1})\n', "")


def test_without_tools_calls_are_text(model: str) -> None:
    assert run(model, "hello", "--tool-call-parser", "toy").out == "\n", "special tokens are left out"


def test_a_terminal_shows_reasoning(model: str, tools: str) -> None:
    with Terminal("run", model, "hello", "--tools", tools, *REFERENCE) as terminal:
        terminal.expect("tool calls    toy (toy-parsers 1.0): the chat template holds '<call>'\n")
        terminal.expect("reasoning     toy_thoughts (toy-parsers 1.0): the chat template holds '<toy-think>'\n")
        terminal.expect('Hmm\nHi\n[tool call] look({"x": 1})\n')
        assert terminal.exit_code() == 0


def test_reasoning_alone_is_not_passed_over_in_silence(model: str, tools: str) -> None:
    result = run(model, "hello", "--tools", tools, "-n", "1")
    assert (result.code, result.out) == (0, "\n")
    assert result.err == "[the answer ended within the reasoning, which is shown on a terminal only]\n"


def test_parsers_can_be_switched_off(model: str, tools: str) -> None:
    options = ("--tools", tools, "--reasoning-parser", "none")
    assert run(model, "hello", *options).out == '<think>Hmm</think>Hi\n[tool call] look({"x": 1})\n'


def test_explain_says_which_parsers_and_why(model: str) -> None:
    result = run_process("explain", model, *REFERENCE)
    assert (
        "tool parser: toy (toy-parsers 1.0)\n"
        "  chosen       toy (toy-parsers 1.0): the chat template holds '<call>'\n" in result.out
    )
    assert "reasoning parser: toy_thoughts (toy-parsers 1.0)\n" in result.out
    data = json.loads(run_process("explain", model, *REFERENCE, "--json", "--reasoning-parser", "none").out)
    assert (data["tool_parser"]["id"], data["tool_parser"]["distribution"]) == ("toy", "toy-parsers")
    assert data["reasoning_parser"]["id"] is None
    assert data["reasoning_parser"]["reason"] == "--reasoning-parser none was asked for"


def test_unknown_parser(cli: Cli, tiny: str) -> None:
    result = cli("run", tiny, "hello", "--tool-call-parser", "hermes2", *REFERENCE)
    assert (result.code, result.out) == (1, "")
    lines = result.err.splitlines()
    assert lines[0] == "error: no installed plugin provides tool parser 'hermes2'."
    assert lines[1].startswith("Closest known: hermes (")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[", "error: --tools {file} is not JSON: Expecting value: line 1 column 2 (char 1)\n"),
        ('[{"type": "function"}]', "error: tools[0].function: must be a mapping with a name, got None\n"),
    ],
)
def test_malformed_tools(cli: Cli, tiny: str, tools: str, text: str, message: str) -> None:
    Path(tools).write_text(text)
    result = cli("run", tiny, "hello", "--tools", tools, *REFERENCE)
    assert (result.code, result.out, result.err) == (1, "", message.format(file=tools))


def test_tools_that_cannot_be_used(cli: Cli, tiny: str, tools: str) -> None:
    result = cli("run", tiny, "hello", "--tools", "/no/such/file", *REFERENCE)
    assert result.code == 1
    assert result.err.startswith("error: --tools /no/such/file cannot be read: ")
    result = cli("run", tiny, "hello", "--tools", tools, "--raw", *REFERENCE)
    assert result.code == 2
    assert "tools need a chat template" in result.err
    result = cli("run", tiny, "hello", "--chat-template-kwargs", "{x}", *REFERENCE)
    assert result.err.startswith("error: --chat-template-kwargs is not JSON: ")
    result = cli("run", tiny, "hello", "--chat-template-kwargs", "3", *REFERENCE)
    assert result.err == "error: chat_template_kwargs: must be a mapping of names to values, got 3\n"


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


def shown(stream: io.StringIO, monkeypatch: pytest.MonkeyPatch, *events: Event) -> str:
    monkeypatch.setattr(sys, "stdout", stream)
    answer = ShownAnswer(chat=True)
    for event in events:
        answer.show(CompletionOutput(0, events=[event]))
    answer.end()
    return stream.getvalue()


def test_reasoning_is_dimmed_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    events: tuple[Any, ...] = (
        Reasoning("Hm"),
        Reasoning("m\n"),
        Content("Hi"),
        CallStart(0, "f", "id"),
        CallArguments(0, "{}"),
        CallEnd(0),
        CallStart(1, "g", "id"),
        CallEnd(1),
        Content("end"),
    )
    calls = "Hi\n[tool call] f({})\n[tool call] g()\nend\n"
    assert shown(Screen(), monkeypatch, *events) == f"\x1b[2mHm\x1b[22m\x1b[2mm\n\x1b[22m{calls}"
    assert shown(io.StringIO(), monkeypatch, *events) == calls


def test_call_that_was_cut_off_ends_its_line(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shown(io.StringIO(), monkeypatch, CallStart(0, "f"), CallArguments(0, '{"a')) == '[tool call] f({"a\n'
    assert shown(io.StringIO(), monkeypatch) == "\n"
