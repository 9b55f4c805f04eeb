"""GPT-2 against transformers, from safetensors and from GGUF."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import gguf
import pytest
from safetensors.numpy import load_file, save_file

from modelhost.testing.architecture import ArchitectureCase
from modelhost.testing.hygiene import hygiene_checks
from modelhost.testing.transformers_reference import TransformersReference, save_random, transformers_checks

SIZES: dict[str, Any] = {"vocab_size": 61, "n_positions": 64, "n_embd": 40, "n_layer": 2, "n_head": 4}
SIZES |= {"bos_token_id": 0, "eos_token_id": 0}
KEPT = TemporaryDirectory(prefix="modelhost-gpt2-")
HUGGINGFACE = Path(KEPT.name) / "huggingface"


def original() -> Path:
    return HUGGINGFACE if HUGGINGFACE.exists() else save_random(HUGGINGFACE, "gpt2", SIZES)


def without_prefix() -> Path:
    """A checkpoint with the names and the mask buffers of the first releases."""
    tensors = load_file(original() / "model.safetensors")
    named = {name.removeprefix("transformer."): values for name, values in tensors.items()}
    named["h.0.attn.bias"] = named["ln_f.bias"]
    directory = Path(KEPT.name) / "without-prefix"
    directory.mkdir()
    save_file(named, directory / "model.safetensors")
    (directory / "config.json").write_text((original() / "config.json").read_text())
    return directory


def gguf_file() -> Path:
    """What llama.cpp's converter makes of the checkpoint; names are those of the package ``gguf``."""
    config = json.loads((original() / "config.json").read_text())
    path = Path(KEPT.name) / "model.gguf"
    writer = gguf.GGUFWriter(path, "gpt2")
    writer.add_context_length(config["n_positions"])
    writer.add_embedding_length(config["n_embd"])
    writer.add_block_count(config["n_layer"])
    writer.add_feed_forward_length(4 * config["n_embd"])
    writer.add_head_count(config["n_head"])
    writer.add_layer_norm_eps(config["layer_norm_epsilon"])
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.GPT2, config["n_layer"])
    for name, values in load_file(original() / "model.safetensors").items():
        matrix = ".c_" in name and values.ndim == 2
        writer.add_tensor(names.get_name(name, (".weight", ".bias")), values.T.copy() if matrix else values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def checks_of(checkpoint: Callable[[], Path]) -> list[Any]:
    case = ArchitectureCase(
        "GPT2LMHeadModel", checkpoint=checkpoint, reference=lambda _: TransformersReference(original()), generated=24
    )
    return case.checks(checkpoint.__name__)


CHECKS = [
    *checks_of(original),
    *checks_of(without_prefix),
    *checks_of(gguf_file),
    *transformers_checks("GPT2LMHeadModel", "gpt2", {**SIZES, "n_head": 1, "n_inner": 33}),
]


@pytest.mark.parametrize("check", CHECKS)
def test_conformance(check: Callable[[], None]) -> None:
    check()


@pytest.mark.parametrize("check", hygiene_checks(Path(__file__).parents[1]))
def test_hygiene(check: Callable[[], None]) -> None:
    check()
