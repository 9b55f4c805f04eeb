"""``modelhost bench``. What the clock shows is not tested."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from .conftest import Cli, install, run_process

SMALL = ("--prompt-lengths", "4,16", "--context", "8", "--batch", "1,3", "--output-tokens", "3", "-r", "2")
REFERENCE = ("--backend", "reference", *SMALL)
WITHOUT_PROFILE = """
from modelhost.api import Backend, hookimpl
from modelhost.reference import ReferenceBackend

API = (1, 0)


class Executable:
    def __init__(self, inner):
        self.run, self.weight_bytes = inner.run, inner.weight_bytes


class Plain(ReferenceBackend):
    name = "plain"

    def compile(self, graph, load, cache):
        return Executable(super().compile(graph, load, cache))


@hookimpl
def modelhost_backends():
    yield Backend("plain", target="plain_backend:Plain")
"""


def measured(cli: Cli, *arguments: str) -> Any:
    result = cli("bench", *arguments, *REFERENCE, "--json")
    assert (result.code, result.err) == (0, "")
    return json.loads(result.out)


def rows(text: str, title: str) -> list[list[str]]:
    """The cells of the table under a line that begins with ``title``, without its header."""
    lines = iter(text.splitlines())
    next(line for line in lines if line.startswith(title))
    next(line for line in lines if "───" in line)
    found: list[list[str]] = []
    for line in lines:
        if not line.strip():
            break
        found.append(line.split())
    return found


def test_tables(cli: Cli, tiny: str) -> None:
    result = cli("bench", tiny, *REFERENCE)
    assert (result.code, result.err) == (0, "")
    facts = dict(line.strip().split("  ", 1) for line in result.out.splitlines()[:8] if "  " in line.strip())
    assert facts["model"].strip() == f"{tiny}/ (safetensors)"
    assert facts["backend"].strip().endswith("on cpu in float32: asked for by name")
    assert "(prepare " in facts["load to first token"]
    assert facts["peak memory"].strip().endswith("iB")
    assert [row[0] for row in rows(result.out, "Prefill")] == ["4", "16"]
    assert [row[:2] for row in rows(result.out, "Decode")] == [["8", "1"], ["8", "3"]]
    assert all(float(value.replace(",", "")) > 0 for row in rows(result.out, "Decode") for value in row)


def test_json(cli: Cli, tiny: str) -> None:
    data = measured(cli, tiny)
    assert (data["model"], data["architecture"], data["device"]) == (tiny, "LlamaForCausalLM", "cpu")
    assert data["backend"]["id"] == "reference"
    assert (data["repetitions"], data["output_tokens"]) == (2, 3)
    assert data["settings"]["max_num_seqs"] == 3
    assert data["settings"]["enable_prefix_caching"] is False
    load = data["load"]
    assert load["total_seconds"] == load["prepare_seconds"] + load["weights_seconds"] + load["first_token_seconds"]
    assert [(one["prompt_length"], len(one["seconds"])) for one in data["prefill"]] == [(4, 2), (16, 2)]
    assert [(one["context"], one["batch"]) for one in data["decode"]] == [(8, 1), (8, 3)]
    for one in data["decode"]:
        assert [len(steps) for steps in one["steps"]] == [3, 3]
        latency = one["token_latency_seconds"]
        assert min(map(min, one["steps"])) <= latency["p50"] <= latency["p90"] <= latency["p99"]
        assert one["tokens_per_second"] == pytest.approx(one["batch"] / one["step_seconds"])
    assert data["peak_memory_bytes"] > 1 << 20
    assert "profile" not in data


def test_profile(cli: Cli, tiny: str) -> None:
    result = cli("bench", tiny, *REFERENCE, "--profile")
    assert (result.code, result.err) == (0, "")
    for title in ("Profile of decode, context 8, batch 1: ", "Profile of prefill, 16 tokens: "):
        names = {row[0] for row in rows(result.out, title)}
        assert {"embed", "linear", "attention", "write_cache"} <= names
    data = measured(cli, tiny, "--profile")
    assert [one["step"] for one in data["profile"]] == ["decode, context 8, batch 1", "prefill, 16 tokens"]
    linear = [op for op in data["profile"][0]["ops"] if op["name"] == "linear"]
    assert {"name", "detail", "calls", "seconds", "bytes_read"} == set(linear[0])
    assert any(op["detail"] == "float32 [261, 264]" and op["bytes_read"] == 261 * 264 * 4 for op in linear)


def test_backend_without_a_profile(tiny: str, tmp_path: Path) -> None:
    install(tmp_path, "plain-backend", "plain_backend", WITHOUT_PROFILE)
    env = {"PYTHONPATH": str(tmp_path)}
    arguments = ("bench", tiny, "--backend", "plain", *SMALL)
    assert run_process(*arguments, env=env).code == 0
    result = run_process(*arguments, "--profile", env=env)
    assert (result.code, result.out) == (1, "")
    assert result.err == "error: the plain backend cannot time its ops; leave --profile out or name another --backend\n"


@pytest.mark.parametrize("text", ["", "0", "-1", "8,", "8,x", "1.5", "8 16"])
@pytest.mark.parametrize("option", ["--prompt-lengths", "--context", "--batch"])
def test_lists_that_are_none(cli: Cli, tiny: str, option: str, text: str) -> None:
    result = cli("bench", tiny, f"{option}={text}")
    assert (result.code, result.out) == (2, "")
    assert f"{option} takes numbers above 0 with commas between them" in " ".join(
        line.strip("│ ") for line in result.err.splitlines()
    )


def test_numbers_may_have_spaces_and_are_measured_once(cli: Cli, tiny: str) -> None:
    result = cli("bench", tiny, *REFERENCE, "--prompt-lengths", "5, 2,5", "--json")
    assert [one["prompt_length"] for one in json.loads(result.out)["prefill"]] == [5, 2]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("-c", "10"), "error: --max-model-len must be at least 17 for these lengths, got 10\n"),
        (
            ("--speculative-config", '{"method": "ngram"}'),
            "error: speculation cannot be measured on random tokens; leave --speculative-config out\n",
        ),
    ],
)
def test_settings_that_do_not_fit(cli: Cli, tiny: str, options: tuple[str, ...], message: str) -> None:
    result = cli("bench", tiny, *REFERENCE, *options)
    assert (result.code, result.out, result.err) == (1, "", message)


def test_cache_that_does_not_hold_the_batch(cli: Cli, tiny: str) -> None:
    result = cli("bench", tiny, *REFERENCE, "--kv-cache-memory-bytes", "3K")
    assert (result.code, result.out) == (1, "")
    assert result.err.startswith("error: the KV cache does not hold 3 sequences of 8 tokens and more; choose a smaller")
