from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from modelhost.api import PluginError, ReasoningParser, ToolParser, UnsupportedError
from modelhost.plugins import ModelTraits, PluginInfo, Registration, Registry, select_parser

TEMPLATE = "{{ '<call>' }} {{ '<args>' }} <think>"


class Words:
    """A vocabulary of given tokens."""

    def __init__(self, *words: str) -> None:
        self._words = words

    def token_id(self, text: str) -> int | None:
        return self._words.index(text) if text in self._words else None


def record(id: str, **fields: Any) -> ToolParser:
    return ToolParser(id, target=fields.pop("target", f"formats:{id}"), **fields)


def registry(*records: ToolParser | ReasoningParser, plugins: Iterable[PluginInfo] = ()) -> Registry:
    return Registry(
        plugins,
        [Registration(one, f"modelhost-{one.id}", "1.0", one.id, one.id, f"{one.id}.py", (1, 0)) for one in records],
    )


MODEL = ModelTraits("TinyForCausalLM", TEMPLATE, Words("<call>"), "modelhost-tiny")


def explained(*records: ToolParser, model: ModelTraits = MODEL, name: str = "auto") -> str:
    return select_parser(registry(*records), ToolParser, name, model).explain()


def test_the_texts_of_the_chat_template_decide() -> None:
    assert explained(
        record("fits", template=("<call>", "<args>")),
        record("stranger", template=("<function",)),
        record("cousin", template=("<call>", "<function"), architectures=("TinyForCausalLM",)),
    ) == (
        "tool parser: fits (modelhost-fits 1.0)\n"
        "  chosen       fits (modelhost-fits 1.0): the chat template holds '<call>' and '<args>'\n"
        "  rejected     cousin (modelhost-cousin 1.0): for TinyForCausalLM, but the chat template lacks '<function'\n"
        "  1 more are for other models"
    )


def test_the_architecture_decides_between_those_that_fit() -> None:
    assert explained(
        record("general", template=("<call>",)),
        record("own", template=("<call>",), architectures=("TinyForCausalLM",)),
    ) == (
        "tool parser: own (modelhost-own 1.0)\n"
        "  chosen       own (modelhost-own 1.0): the chat template holds '<call>', made for TinyForCausalLM\n"
        "  lower        general (modelhost-general 1.0): fits the chat template, but is not for TinyForCausalLM"
    )


def test_more_texts_win() -> None:
    assert explained(record("few", template=("<call>",)), record("more", template=("<call>", "<args>"))) == (
        "tool parser: more (modelhost-more 1.0)\n"
        "  chosen       more (modelhost-more 1.0): the chat template holds '<call>' and '<args>'\n"
        "  lower        few (modelhost-few 1.0): more is known by the same texts of the chat template and more"
    )


def test_the_first_of_several_names_of_one_parser() -> None:
    assert explained(
        record("first", template=("<call>",), target="formats:x"),
        record("second", template=("<call>",), target="formats:x"),
    ) == (
        "tool parser: first (modelhost-first 1.0)\n"
        "  chosen       first (modelhost-first 1.0): the chat template holds '<call>'\n"
        "  lower        second (modelhost-second 1.0): the same as first"
    )


def test_without_texts_the_architecture_decides_alone() -> None:
    selection = select_parser(
        registry(record("own", architectures=("TinyForCausalLM",)), record("any")), ToolParser, "auto", MODEL
    )
    assert str(selection) == "own (modelhost-own 1.0): made for TinyForCausalLM"
    assert selection.others == 1


def test_a_tokenizer_without_the_markers() -> None:
    needy = record("needy", template=("<call>",), markers=("<call>", "<end>", "<x>"))
    reason = "the tokenizer has no token '<end>' and '<x>', which its format needs"
    assert explained(needy) == (
        "tool parser: none: no installed tool parser fits its chat template\n"
        f"  rejected     needy (modelhost-needy 1.0): {reason}"
    )
    with pytest.raises(UnsupportedError) as raised:
        explained(needy, name="needy")
    assert str(raised.value) == f"tool parser 'needy' (modelhost-needy 1.0) was asked for and cannot be used: {reason}"


def test_by_name() -> None:
    assert explained(record("named"), record("other", template=("<call>",)), name="named") == (
        "tool parser: named (modelhost-named 1.0)\n  chosen       named (modelhost-named 1.0): asked for by name"
    )


def test_two_that_fit_equally_well() -> None:
    with pytest.raises(PluginError) as raised:
        explained(record("one", template=("<call>",)), record("two", template=("<args>",)))
    assert str(raised.value) == (
        "tool parsers 'one' (modelhost-one 1.0) and 'two' (modelhost-two 1.0) fit the model equally well. "
        "Choose with --tool-call-parser one or --tool-call-parser two\n"
        "  usable       one (modelhost-one 1.0): the chat template holds '<call>'\n"
        "  usable       two (modelhost-two 1.0): the chat template holds '<args>'"
    )


def test_of_two_reasoning_parsers_that_fit_equally_well_none_is_used() -> None:
    records = [ReasoningParser(name, target="formats:" + name, template=("<think>",)) for name in ("one", "two")]
    selection = select_parser(registry(*records), ReasoningParser, "auto", MODEL)
    assert selection.chosen is None
    assert selection.reason == (
        "reasoning parsers 'one' (modelhost-one 1.0) and 'two' (modelhost-two 1.0) fit the model equally well. "
        "Choose with --reasoning-parser one or --reasoning-parser two"
    )
    assert [str(line.verdict) for line in selection.candidates] == ["usable", "usable"]


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (ModelTraits("TinyForCausalLM", TEMPLATE), "the model has no tokenizer"),
        (ModelTraits("TinyForCausalLM", "", Words()), "the model has no chat template"),
        (ModelTraits("TinyForCausalLM", "plain", Words()), "no installed tool parser fits its chat template"),
    ],
)
def test_none(model: ModelTraits, reason: str) -> None:
    selection = select_parser(registry(record("fits", template=("<call>",))), ToolParser, "auto", model)
    assert (selection.chosen, selection.reason, selection.switched_off) == (None, reason, False)
    assert str(selection) == f"none: {reason}"


def test_switched_off() -> None:
    selection = select_parser(registry(record("fits", template=("<call>",))), ToolParser, "none", MODEL)
    assert selection.explain() == "tool parser: none: --tool-call-parser none was asked for"
    assert selection.switched_off


def test_the_package_of_the_models_family_is_named() -> None:
    model = ModelTraits("Qwen2ForCausalLM", TEMPLATE, Words(), "modelhost-qwen")
    assert explained(model=model) == (
        "tool parser: none: no tool parser is installed "
        "(those of the model's family: pip install modelhost-qwen-parsers)"
    )


def test_unknown_name() -> None:
    with pytest.raises(PluginError) as raised:
        explained(record("herring"), name="hermes")
    lines = str(raised.value).splitlines()
    assert lines[0] == "no installed plugin provides tool parser 'hermes'."
    assert lines[1] == ("It is provided by modelhost-qwen-parsers. Install it with: pip install modelhost-qwen-parsers")
    assert "herring (modelhost-herring, installed)" in lines[2]


def test_a_plugin_that_is_known_to_have_parsers_and_is_broken() -> None:
    broken = PluginInfo(
        "qwen-parsers", "m", "modelhost-qwen-parsers", "1.0", False, "broken", "there", error="it is broken"
    )
    selection = select_parser(registry(plugins=[broken]), ReasoningParser, "auto", MODEL)
    assert selection.explain() == (
        "reasoning parser: none: no reasoning parser is installed\n"
        "  broken       qwen3 (modelhost-qwen-parsers 1.0): it is broken"
    )


def test_one_name_in_two_packages() -> None:
    one = Registration(record("x", template=("<call>",)), "modelhost-a", "1.0", "a", "a", "a.py", (1, 0))
    two = Registration(record("x", template=("<call>",), target="b:x"), "modelhost-b", "1.0", "b", "b", "b.py", (1, 0))
    with pytest.raises(PluginError, match=r"tool parser 'x' is declared by modelhost-a 1\.0 .* and modelhost-b 1\.0"):
        select_parser(Registry((), [one, two]), ToolParser, "auto", MODEL)
