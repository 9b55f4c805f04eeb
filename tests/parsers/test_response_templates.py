"""Chats with a model whose checkpoint says how its answers are read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from scripted_model import WEATHER, scripted_llm, write_checkpoint

from modelhost import SamplingParams
from modelhost.api import UnsupportedError

ASK = [{"role": "user", "content": "weather?"}]
LONG = SamplingParams(temperature=0, max_tokens=200)
RESPONSE_TEMPLATE = {
    "start_anchor": "<|assistant|>",
    "fields": {
        "thinking": {"open": "<think>", "close": "</think>"},
        "tool_calls": {
            "open_pattern": r"\s*<tool_call>",
            "close": "</tool_call>",
            "repeats": True,
            "content": "json",
            "transform": {"type": "function", "function": "{content}"},
        },
        "content": {},
    },
}
ANSWER = '<think>Let me look.</think>Wait.\n<tool_call>{"name": "get_weather", "arguments": {"days": "3"}}</tool_call>'
HF: dict[str, Any] = {"tool_call_parser": "hf", "reasoning_parser": "hf"}


@pytest.fixture()
def checkpoint(tmp_path: Path) -> Path:
    folder = write_checkpoint(tmp_path / "model")
    config = folder / "tokenizer_config.json"
    config.write_text(json.dumps({**json.loads(config.read_text()), "response_template": RESPONSE_TEMPLATE}))
    return folder


def test_the_template_of_the_checkpoint_is_used(checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    llm = scripted_llm(monkeypatch, checkpoint, **HF)
    output = llm.says(ANSWER).chat(ASK, LONG, tools=[WEATHER])[0].outputs[0]
    assert (output.reasoning, output.content, output.finish_reason) == ("Let me look.", "Wait.", "tool_calls")
    [call] = output.tool_calls
    assert (call.function.name, call.function.arguments) == ("get_weather", '{"days": 3}')


def test_calls_are_text_without_tools(checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    output = scripted_llm(monkeypatch, checkpoint, **HF).says(ANSWER).chat(ASK, LONG)[0].outputs[0]
    assert (output.reasoning, output.tool_calls) == ("Let me look.", [])
    assert output.content == ANSWER.partition("</think>")[2]


def test_a_checkpoint_without_a_template_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    llm = scripted_llm(monkeypatch, write_checkpoint(tmp_path / "model"), **HF)
    with pytest.raises(UnsupportedError, match="response_template, which it does not have"):
        llm.says("Hi").chat(ASK, LONG)


def test_a_call_cannot_be_forced(checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    llm = scripted_llm(monkeypatch, checkpoint, **HF)
    with pytest.raises(UnsupportedError, match="does not state how a call begins"):
        llm.says(ANSWER).chat(ASK, LONG, tools=[WEATHER], tool_choice="required")
