"""Plugins of several makers in one fresh environment: installed, used, broken and removed by modelhost."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.tiny_model import write_tiny_model

from .conftest import Environment
from .third_party import BROKEN, REASONS, write_third_party_wheels

pytestmark = pytest.mark.slow
LIMIT = {"MODELHOST_PLUGIN_TIMEOUT": "1"}


@pytest.fixture(scope="module")
def environment(make_environment: Callable[[str], Environment], wheels: Path) -> Environment:
    """The core, the family llama, and a model and a backend of another maker."""
    write_third_party_wheels(wheels)
    made = make_environment("together")
    dry = made.modelhost("plugins", "install", "llama", "--dry-run")
    assert (dry.returncode, dry.stdout, dry.stderr) == (0, "would install modelhost-llama 0.1.0\n", "")
    done = made.modelhost("plugins", "install", "llama", "acme-model", "acme-backend")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == (
        "done: install acme-backend 1.0\n"
        "done: install acme-model 1.0\n"
        "done: install modelhost-llama 0.1.0\n"
        "acme-backend: backend acme\n"
        "acme-model: architecture AcmeForCausalLM\n"
        "modelhost-llama: architecture LlamaForCausalLM, MistralForCausalLM\n"
    )
    return made


@pytest.fixture(scope="module")
def tiny_acme(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The small checkpoint, said to be of the third party's architecture."""
    folder = write_tiny_model(tmp_path_factory.mktemp("acme"))
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "architectures": ["AcmeForCausalLM"]}))
    return str(folder)


def answer(environment: Environment, model: str, *options: str) -> str:
    arguments = ["--raw", "--max-tokens", "6", "--temperature", "0", *options]
    done = environment.modelhost("run", model, "hello", *arguments, **LIMIT)
    assert done.returncode == 0, done.stderr
    return done.stdout


def explained(environment: Environment, model: str) -> dict[str, Any]:
    done = environment.modelhost("explain", model, "--json", **LIMIT)
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


def states(environment: Environment) -> dict[str, dict[str, Any]]:
    done = environment.modelhost("plugins", "--json", **LIMIT)
    assert done.returncode == 0, done.stderr
    return {plugin["distribution"]: plugin for plugin in json.loads(done.stdout)["plugins"]}


def test_there_is_no_torch(environment: Environment) -> None:
    assert environment.run("python", "-c", "import torch").returncode == 1


def test_a_model_runs_on_a_backend_without_torch(environment: Environment, tiny_llama: str) -> None:
    explanation = explained(environment, tiny_llama)
    assert (explanation["backend"]["id"], explanation["backend"]["distribution"]) == ("acme", "acme-backend")
    assert answer(environment, tiny_llama) == answer(environment, tiny_llama, "--backend", "reference")


def test_a_third_partys_model_runs_beside_ours(environment: Environment, tiny_llama: str, tiny_acme: str) -> None:
    assert explained(environment, tiny_acme)["architecture"]["distribution"] == "acme-model"
    assert answer(environment, tiny_acme) == answer(environment, tiny_llama)


def test_installing_what_is_there_changes_nothing(environment: Environment) -> None:
    done = environment.modelhost("plugins", "install", "llama")
    assert (done.returncode, done.stdout) == (0, "nothing to do: all of it is installed\n")


@pytest.fixture(scope="module")
def hostile(environment: Environment) -> Iterator[dict[str, dict[str, Any]]]:
    """The states of all plugins while the broken ones are installed. At the end modelhost removes them."""
    names = [f"acme-{name}" for name in BROKEN]
    done = environment.modelhost("plugins", "install", *names, **LIMIT)
    assert done.returncode == 1
    assert [f"done: install {name} 1.0" in done.stdout for name in names] == [True] * len(names)
    yield states(environment)
    done = environment.modelhost("plugins", "uninstall", *names, **LIMIT)
    assert (done.returncode, done.stderr) == (0, "")
    assert not set(names) & set(states(environment))


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_plugin_is_one_line(hostile: dict[str, dict[str, Any]], name: str) -> None:
    plugin = hostile[f"acme-{name}"]
    assert plugin["state"] == ("incompatible" if name in {"newer", "older"} else "broken")
    assert REASONS[name] in plugin["error"]
    if plugin["state"] == "broken":
        assert f"Remove it with: pip uninstall acme-{name}" in plugin["error"]
        assert f"site-packages/acme_{name}/plugin.py:" in plugin["error"]


def test_broken_plugins_harm_no_other(
    hostile: dict[str, dict[str, Any]], environment: Environment, tiny_llama: str, tiny_acme: str
) -> None:
    good = {"modelhost", "modelhost-llama", "acme-model", "acme-backend"}
    assert {name for name, plugin in hostile.items() if plugin["state"] == "ok"} == good
    assert answer(environment, tiny_llama) == answer(environment, tiny_acme)
    for command in ("--version", "--help", "doctor", "plugins"):
        assert environment.modelhost(command, **LIMIT).returncode == 0


def test_a_plugin_that_hangs_costs_its_time_once(hostile: dict[str, dict[str, Any]], environment: Environment) -> None:
    assert hostile["acme-hanging"]["timed_out"]
    time.sleep(2.5)  # until the files are old enough to be trusted
    states(environment)
    assert states(environment)["acme-hanging"]["cached"]
    again = environment.modelhost("plugins", "--refresh", "--json", **LIMIT)
    assert not any(plugin["cached"] for plugin in json.loads(again.stdout)["plugins"])


def test_a_duplicate_is_fatal_when_it_is_selected_and_only_then(
    environment: Environment, tiny_llama: str, tiny_acme: str
) -> None:
    environment.install("acme-duplicate")
    assert answer(environment, tiny_acme)
    done = environment.modelhost("run", tiny_llama, "hello")
    assert done.returncode == 1
    assert done.stderr.startswith("error: architecture 'LlamaForCausalLM' is declared by acme-duplicate 1.0 (")
    assert "and modelhost-llama 0.1.0 (" in done.stderr
    assert "pip uninstall acme-duplicate, or pip uninstall modelhost-llama" in done.stderr
    consent = {"MODELHOST_REPLACE": "modelhost-llama:LlamaForCausalLM"}
    replaced = environment.modelhost("run", tiny_llama, "hello", **consent)
    assert "acme-duplicate 1.0: acme_duplicate.model:Llama must be a subclass of CausalLM" in replaced.stderr
    assert environment.modelhost("plugins", "uninstall", "acme-duplicate").returncode == 0
    assert answer(environment, tiny_llama)


def test_removing_one_leaves_the_rest_working(environment: Environment, tiny_llama: str, tiny_acme: str) -> None:
    dry = environment.modelhost("plugins", "uninstall", "llama", "--dry-run")
    assert (dry.returncode, dry.stdout) == (0, "would remove modelhost-llama 0.1.0\n")
    done = environment.modelhost("plugins", "uninstall", "llama")
    assert (done.returncode, done.stdout) == (0, "removed modelhost-llama 0.1.0\n")
    assert answer(environment, tiny_acme)
    gone = environment.modelhost("run", tiny_llama, "hello")
    assert gone.returncode == 1
    assert "It is provided by modelhost-llama. Install it with: pip install modelhost-llama" in gone.stderr
