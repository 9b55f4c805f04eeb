"""Which parsers are chosen for real checkpoints, with all parsers of the tree installed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from golden_cases import declared
from parser_registry import registry_with_parsers
from scripted_model import WEATHER

from modelhost import LLM, SamplingParams
from modelhost.api import ReasoningParser, ToolParser
from modelhost.engine.model import model_traits, open_tokenizer
from modelhost.loading import open_model
from modelhost.plugins import ModelTraits, ParserSelection, select_parser


def selected(path: Path) -> tuple[ParserSelection[ToolParser], ParserSelection[ReasoningParser]]:
    registry = registry_with_parsers()
    source = open_model(path, registry)
    tokenizer = open_tokenizer(source.checkpoint)
    with_tools = model_traits(source, tokenizer, tools=True)
    return (
        select_parser(registry, ToolParser, "auto", with_tools),
        select_parser(registry, ReasoningParser, "auto", model_traits(source, tokenizer)),
    )


def test_qwen(checkpoint_file: Callable[[str], Path]) -> None:
    tools, reasoning = selected(checkpoint_file("qwen2.5-coder"))
    assert str(tools) == (
        "hermes (modelhost-qwen-parsers 0.1.0): the chat template holds '<tool_call>' and '<args-json-object>', "
        "made for Qwen2ForCausalLM"
    )
    assert str(reasoning) == "none: no installed reasoning parser fits its chat template"


def test_models_without_tools(checkpoint_file: Callable[[str], Path]) -> None:
    for name, reason in (
        ("smollm2", "no installed tool parser fits its chat template"),
        ("gemma3", "the model has no chat template"),
    ):
        tools, reasoning = selected(checkpoint_file(name))
        assert (tools.chosen, reasoning.chosen) == (None, None)
        assert tools.reason == reason


def test_a_real_answer_has_a_call(checkpoint_file: Callable[[str], Path]) -> None:
    llm = LLM(str(checkpoint_file("qwen2.5-coder")), registry=registry_with_parsers(), max_model_len=1024)
    question = [{"role": "user", "content": "What is the weather in Paris? Use the tool."}]
    choice = {"type": "function", "function": {"name": "get_weather"}}
    params = SamplingParams(temperature=0, max_tokens=40)
    output = llm.chat(question, params, tools=[WEATHER], tool_choice=choice)[0].outputs[0]
    [call] = output.tool_calls
    assert call.function.name == "get_weather"
    assert "Paris" in call.function.arguments
    assert output.content is None


class AllTokens:
    """A vocabulary in which every text is one token."""

    def token_id(self, text: str) -> int | None:
        return 0


@pytest.mark.parametrize(("kind", "name"), [key for key, record in declared().items() if record.template])
def test_a_model_of_a_family_gets_a_parser_of_its_family(kind: str, name: str) -> None:
    """A template with a record's texts, on each of its architectures, is not taken for another family's."""
    record = declared()[kind, name]
    same = {one.id for (one_kind, _), one in declared().items() if one_kind == kind and one.target == record.target}
    registry = registry_with_parsers()
    for architecture in record.architectures:
        model = ModelTraits(architecture, "\n".join(record.template), AllTokens())
        chosen = select_parser(registry, type(record), "auto", model).chosen
        assert chosen is not None
        assert chosen.id in same, f"{architecture}: {chosen.id} instead of {name}"
