from __future__ import annotations

from typing import Any

import pytest

from modelhost.api import PluginError, ToolParser
from modelhost.plugins import select, select_architecture
from modelhost.plugins.known import known_plugins


def failure(action: Any, *arguments: Any) -> str:
    with pytest.raises(PluginError) as raised:
        action(*arguments)
    return str(raised.value)


def test_an_architecture_by_either_name(site: Any) -> None:
    site.architecture("foo", "FooForCausalLM", 'gguf=("foo", "foo2")')
    registry = site.boot()
    selection = select_architecture(registry, "FooForCausalLM", "hf")
    assert selection.chosen.record.target == "modelhost_foo.impl:Impl"
    assert selection.explain() == (
        "architecture: FooForCausalLM (modelhost-foo 1.0)\n"
        "  chosen       FooForCausalLM (modelhost-foo 1.0): provides architecture 'FooForCausalLM'"
    )
    by_gguf = select_architecture(registry, "foo2", "gguf")
    assert by_gguf.chosen is selection.chosen
    assert by_gguf.explain().endswith(": reads GGUF architecture 'foo2'")


def test_an_architecture_that_is_not_installed(site: Any) -> None:
    assert failure(select_architecture, site.boot(), "Qwen3ForCausalLM", "hf") == (
        "no installed plugin provides architecture 'Qwen3ForCausalLM'.\n"
        "It is provided by modelhost-qwen. Install it with: pip install modelhost-qwen\n"
        "Closest known: Qwen2ForCausalLM (pip install modelhost-qwen), "
        "Qwen3MoeForCausalLM (pip install modelhost-qwen), Gemma3ForCausalLM (pip install modelhost-gemma)"
    )


def test_a_gguf_architecture_that_is_not_installed(site: Any) -> None:
    assert failure(select_architecture, site.boot(), "kimi-linear", "gguf").splitlines()[:2] == [
        "no installed plugin provides GGUF architecture 'kimi-linear'.",
        "It is provided by modelhost-kimi. Install it with: pip install modelhost-kimi",
    ]


def test_an_architecture_that_nobody_knows(site: Any) -> None:
    site.architecture("foo", "LlamaForCasualLM", 'gguf="llamas"')
    registry = site.boot()
    text = failure(select_architecture, registry, "LlamaForCausalLMs", "hf")
    assert text.startswith(
        "no installed plugin provides architecture 'LlamaForCausalLMs'.\n"
        "Closest known: LlamaForCausalLM (pip install modelhost-llama), LlamaForCasualLM (modelhost-foo, installed), "
    )
    assert text.count("modelhost-") == 3
    assert "llamas (modelhost-foo, installed)" in failure(select_architecture, registry, "lamas", "gguf")


@pytest.mark.parametrize(("kind", "id"), [("tool parser", "hermes"), ("reasoning parser", "qwen3")])
def test_a_parser_that_is_not_installed(site: Any, kind: str, id: str) -> None:
    assert failure(select, site.boot(), kind, id).splitlines()[:2] == [
        f"no installed plugin provides {kind} {id!r}.",
        "It is provided by modelhost-qwen-parsers. Install it with: pip install modelhost-qwen-parsers",
    ]


def test_a_parser(site: Any) -> None:
    site.plugin("q", "@hookimpl\ndef modelhost_tool_parsers():\n    yield ToolParser('q', target='m:A')\n")
    registry = site.boot()
    assert select(registry, ToolParser, "q").chosen is registry.find(ToolParser, "q")


def test_the_known_provider_is_broken(site: Any) -> None:
    file = site.plugin("qwen", "1 / 0\n")
    text = failure(select_architecture, site.boot(), "Qwen3ForCausalLM", "hf")
    assert text.splitlines()[:3] == [
        "no installed plugin provides architecture 'Qwen3ForCausalLM'.",
        "It is provided by modelhost-qwen, which is installed but not usable:",
        f"modelhost-qwen 1.0 (entry point 'qwen') is broken: ZeroDivisionError: division by zero ({file}:4). "
        "Remove it with: pip uninstall modelhost-qwen",
    ]


def test_the_known_provider_is_incompatible(site: Any) -> None:
    site.plugin("qwen", "API = (0, 9)\n")
    assert failure(select_architecture, site.boot(), "qwen3", "gguf").splitlines()[1:3] == [
        "It is provided by modelhost-qwen, which is installed but not usable:",
        "modelhost-qwen 1.0 (entry point 'qwen') was built for API 0.9, this modelhost has API 1.0. "
        "Upgrade the plugin: pip install -U modelhost-qwen",
    ]


def test_the_known_provider_is_disabled(site: Any) -> None:
    site.architecture("qwen", "Qwen3ForCausalLM")
    text = failure(select_architecture, site.boot(disable=("qwen",)), "Qwen3ForCausalLM", "hf")
    assert text.splitlines()[2] == "modelhost-qwen 1.0 is disabled: 'qwen' is in plugins.disable"


def test_the_known_provider_is_too_old_to_have_it(site: Any) -> None:
    site.architecture("qwen", "Qwen2ForCausalLM")
    text = failure(select_architecture, site.boot(), "Qwen3ForCausalLM", "hf")
    assert text.splitlines()[1:] == [
        "modelhost-qwen 1.0 is installed and does not provide it; a newer one may. "
        "Upgrade it with: pip install -U modelhost-qwen",
        "Closest known: Qwen2ForCausalLM (modelhost-qwen, installed), "
        "Qwen3MoeForCausalLM (pip install modelhost-qwen), Gemma3ForCausalLM (pip install modelhost-gemma)",
    ]


def test_a_broken_known_provider_is_shown_beside_the_chosen_one(site: Any) -> None:
    site.plugin("qwen", "1 / 0\n")
    site.architecture("mine", "Qwen3ForCausalLM")
    lines = select_architecture(site.boot(), "Qwen3ForCausalLM", "hf").explain().splitlines()
    assert lines[1] == "  chosen       Qwen3ForCausalLM (modelhost-mine 1.0): provides architecture 'Qwen3ForCausalLM'"
    assert lines[2].startswith("  broken       Qwen3ForCausalLM (modelhost-qwen 1.0): modelhost-qwen 1.0 (entry point")


def test_a_duplicate_architecture_by_gguf_name(site: Any) -> None:
    for name in ("one", "two"):
        site.architecture(name, "SameForCausalLM", 'gguf="same"')
    text = failure(select_architecture, site.boot(), "same", "gguf")
    assert text.startswith("architecture 'SameForCausalLM' is declared by modelhost-one 1.0 (")


def test_a_replaced_architecture_by_gguf_name(site: Any) -> None:
    site.architecture("one", "OneForCausalLM", 'gguf="same"')
    site.architecture("two", "TwoForCausalLM", 'gguf="same", replaces="modelhost-one:OneForCausalLM"')
    registry = site.boot(replace=("modelhost-one:OneForCausalLM",))
    assert select_architecture(registry, "same", "gguf").chosen.id == "TwoForCausalLM"
    assert select_architecture(registry, "OneForCausalLM", "hf").chosen.id == "TwoForCausalLM"


def test_two_architectures_that_read_one_gguf_name(site: Any) -> None:
    site.architecture("one", "OneForCausalLM", 'gguf="same"')
    site.architecture("two", "TwoForCausalLM", 'gguf="same"')
    assert failure(select_architecture, site.boot(), "same", "gguf") == (
        "GGUF architecture 'same' is read by OneForCausalLM (modelhost-one 1.0) and "
        "TwoForCausalLM (modelhost-two 1.0).\n"
        "Uninstall one: pip uninstall modelhost-one, or pip uninstall modelhost-two"
    )


def test_the_index_knows_one_provider_for_each_id() -> None:
    import tomllib
    from importlib.resources import files

    text = files("modelhost.plugins").joinpath("known_plugins.toml").read_text(encoding="utf-8")
    data = tomllib.loads(text)
    data.pop("recommended")
    for key in ("architectures", "gguf", "backends", "tool_parsers", "reasoning_parsers", "speculators"):
        ids = [id for table in data.values() for id in table.get(key, ())]
        assert len(ids) == len(set(ids)), key
    assert {key for table in data.values() for key in table} <= {
        "architectures", "gguf", "backends", "tool_parsers", "reasoning_parsers", "speculators", "grammars", "devices",
    }  # fmt: skip
    known = known_plugins()
    assert known.provider("architecture", "Gemma3ForCausalLM") == "modelhost-gemma"
    assert known.provider("GGUF architecture", "qwen2") == "modelhost-qwen"
    assert set(known.devices) == set(known.providers["backend"].values())
    assert known.recommended_backend in known.devices


def test_a_broken_plugin_that_nobody_knows_may_be_the_one(site: Any) -> None:
    file = site.plugin("acme", "1 / 0\n")
    text = failure(select_architecture, site.boot(), "AcmeForCausalLM", "hf")
    assert text.splitlines()[:3] == [
        "no installed plugin provides architecture 'AcmeForCausalLM'.",
        "An installed plugin that is not usable may provide it:",
        f"modelhost-acme 1.0 (entry point 'acme') is broken: ZeroDivisionError: division by zero ({file}:4). "
        "Remove it with: pip uninstall modelhost-acme",
    ]
    disabled = failure(select_architecture, site.boot(disable=("acme",)), "AcmeForCausalLM", "hf")
    assert "modelhost-acme 1.0 is disabled: 'acme' is in plugins.disable" in disabled
