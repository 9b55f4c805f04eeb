"""``modelhost plan``."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from .conftest import CONTEXT, Cli, write_checkpoint

REFERENCE = ("--backend", "reference")


def planned(cli: Cli, *arguments: str) -> Any:
    result = cli("plan", *arguments, *REFERENCE, "--json")
    assert (result.code, result.err) == (0, "")
    return json.loads(result.out)


def test_table(cli: Cli, tiny: str) -> None:
    result = cli("plan", tiny, *REFERENCE, "--max-model-len", "64")
    assert (result.code, result.err) == (0, "")
    rows = dict(line.strip().split("  ", 1) for line in result.out.splitlines() if "  " in line.strip())
    values = {label: value.strip() for label, value in rows.items()}
    assert values["model"] == f"{tiny}/ (safetensors)"
    assert values["architecture"].startswith("LlamaForCausalLM (modelhost-llama ")
    assert values["backend"].endswith("on cpu in float32: asked for by name")
    assert values["dtype"] == "float32"
    assert values["weights"] == "0.6 MiB (0.6 MiB in the checkpoint)"
    assert values["KV cache, full"] == "0.0 MiB (64 tokens, 64 bytes each)"
    assert values["context"] == "64 tokens"
    assert {"workspace", "peak", "budget"} <= set(values)


def test_json(cli: Cli, tiny: str) -> None:
    data = planned(cli, tiny)
    assert data["model"] == tiny
    assert data["architecture"]["id"] == "LlamaForCausalLM"
    assert (data["backend"]["id"], data["device"], data["dtype"]) == ("reference", "cpu", "float32")
    assert data["max_model_len"] == CONTEXT
    (cache,) = data["kv_cache"]
    assert cache["bytes"] == cache["blocks"] * data["block_size"] * cache["bytes_per_token"]
    assert data["peak"] == data["weights"]["resident"] + data["workspace"] + cache["bytes"]
    assert data["peak"] < data["budget"]


def test_memory_of_the_process(cli: Cli, tiny: str) -> None:
    data = planned(cli, tiny)
    assert data["process"] > 1 << 20
    assert data["peak_resident"] == data["peak"] + data["process"]


def test_a_tokenizer_that_cannot_be_read_is_a_warning(cli: Cli, tmp_path: Path) -> None:
    model = write_checkpoint(tmp_path / "m")
    (model / "tokenizer.json").write_text("{")
    result = cli("plan", str(model), *REFERENCE)
    assert result.code == 0
    assert "the memory of the tokenizer is left out" in result.err
    assert "tokenizer.json is not a valid tokenizer" in result.err
    assert "peak resident" in result.out


def test_sequences_share_the_cache(cli: Cli, tiny: str) -> None:
    one, many = (planned(cli, tiny, "-c", "64", "--max-num-seqs", n)["kv_cache"][0]["blocks"] for n in ("1", "8"))
    assert many - 1 == 8 * (one - 1)


def test_sliding_window_is_a_group_of_its_own(cli: Cli, tmp_path: Path) -> None:
    model = write_checkpoint(tmp_path / "m", architectures=["MistralForCausalLM"], sliding_window=32)
    (cache,) = planned(cli, str(model))["kv_cache"]
    assert (cache["group"], cache["window"]) == ("sliding_32", 32)


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        ("64MiB", 64 << 20),
        ("64M", 64 << 20),
        ("64m", 64 << 20),
        ("0.5G", 1 << 29),
        ("2 GiB", 2 << 30),
        ("1GB", 10**9),
        ("65536K", 64 << 20),
        ("67108864", 64 << 20),
        ("67108864B", 64 << 20),
    ],
)
def test_sizes(cli: Cli, tiny: str, size: str, expected: int) -> None:
    assert planned(cli, tiny, "-c", "64", "--memory-bytes", size)["budget"] == expected


@pytest.mark.parametrize("size", ["", "0", "-1", "2Q", "GiB", "1.5.2G", "0.1B"])
def test_sizes_that_are_none(cli: Cli, tiny: str, size: str) -> None:
    result = cli("plan", tiny, f"--kv-cache-memory-bytes={size}")
    assert result.code == 2
    assert "is not a size above 0, such as 2GiB, 512M or a number of bytes" in " ".join(
        line.strip("│ ") for line in result.err.splitlines()
    )


def test_model_that_does_not_fit(cli: Cli, tiny: str) -> None:
    for options in ((), ("--json",)):
        result = cli("plan", tiny, *REFERENCE, "--memory-bytes", "100K", *options)
        assert (result.code, result.out) == (1, "")
        assert result.err.startswith("error: the model needs 0.7 MiB for one sequence of 16 tokens, and 0.1 MiB")
        assert "What would help:\n" in result.err


def test_cache_that_is_too_small_for_the_context(cli: Cli, tiny: str) -> None:
    result = cli("plan", tiny, *REFERENCE, "-c", "50000", "--kv-cache-memory-bytes", "1M")
    assert result.code == 1
    assert "  a larger --kv-cache-memory-bytes than the 1.0 MiB given\n" in result.err
    assert "  --max-model-len 16368 fits\n" in result.err


def test_unknown_architecture(cli: Cli, tmp_path: Path) -> None:
    model = write_checkpoint(tmp_path / "m", architectures=["LlamoForCausalLM"])
    result = cli("plan", str(model))
    assert result.code == 1
    assert result.err.startswith("error: no installed plugin provides architecture 'LlamoForCausalLM'.")


def test_unknown_backend(cli: Cli, tiny: str) -> None:
    result = cli("plan", tiny, "--backend", "referense")
    assert result.code == 1
    assert result.err.startswith("error: no installed plugin provides backend 'referense'.")
    assert "reference" in result.err


def test_real_checkpoint(cli: Cli, checkpoint_file: Callable[[str], Path]) -> None:
    data = planned(cli, str(checkpoint_file("smollm2")))
    assert data["format"] == "gguf"
    assert data["weights"] == {"encoded": 96576768, "resident": 538060032}
    assert data["max_model_len"] == 8192
