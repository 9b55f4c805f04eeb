"""Checkpoints of DeepSeek-V4: under DeepSeek's own names, and with tensors missing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from modelhost import LLM, SamplingParams
from modelhost.api import ConfigError, WeightError
from modelhost.loading import open_model
from modelhost.plugins import boot
from modelhost.reference import ReferenceBackend
from modelhost.testing.tiny import GraphRunner
from modelhost.testing.transformers_reference import save_random

from .cases import CASES

REGISTRY = boot()
Arrays = dict[str, np.ndarray]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    _, model_type, fields = CASES["deepseek-v4"]
    return save_random(tmp_path_factory.mktemp("v4") / "written", model_type, fields)


def changed(written: Path, directory: Path, change: Callable[[Arrays], Arrays]) -> Path:
    """A copy of the checkpoint with other tensors."""
    (directory / "config.json").write_bytes((written / "config.json").read_bytes())
    save_file(change(load_file(written / "model.safetensors")), directory / "model.safetensors")
    return directory


def published_name(name: str) -> str:
    if name.startswith("model.hc_head."):
        return name.replace("model.hc_head.hc_", "hc_head_")
    return name.replace("model.embed_tokens", "embed").replace(".attn.norm.", ".attn.kv_norm.").removeprefix("model.")


def test_published_names(written: Path, tmp_path: Path) -> None:
    def rename(tensors: Arrays) -> Arrays:
        extra = {"mtp.0.enorm.weight": np.zeros(36, np.float32)}
        return {published_name(name): array for name, array in tensors.items()} | extra

    other = changed(written, tmp_path, rename)
    prompt = list(range(20))
    runs = [GraphRunner(open_model(path, REGISTRY), ReferenceBackend()).logits(prompt) for path in (written, other)]
    np.testing.assert_array_equal(*runs)


def test_missing_tensors_are_named(written: Path, tmp_path: Path) -> None:
    gone = ("model.layers.1.ffn.experts.3.w2.weight", "model.layers.2.attn.indexer.compressor.ape")
    path = changed(written, tmp_path, lambda t: {name: array for name, array in t.items() if name not in gone})
    with pytest.raises(WeightError) as raised:
        open_model(path, REGISTRY).verify()
    names = "layers.2.attn.indexer.compressor.ape or model.layers.2.attn.indexer.compressor.ape or "
    own = "model.layers.2.self_attn.compressor.indexer.position_bias"
    assert str(raised.value) == "\n".join(
        [
            f"{path}: the tensors do not fit the model: 2 missing.",
            "missing:",
            "  model.layers.1.ffn.experts.3.w2.weight of shape (36, 11)",
            f"  {names}{own} of shape (4, 22)",
            "Check that the configuration and the weights belong together and that the model's plugin is current.",
        ]
    )


@pytest.mark.parametrize("backend", ["reference", "torch"])
def test_blocks_of_another_size(written: Path, backend: str) -> None:
    """Entries of 4 and 8 tokens: several in a block, one in a block, and a block for several blocks of tokens."""
    prompts = [{"prompt_token_ids": list(range(length))} for length in (3, 17, 30)]
    params = SamplingParams(temperature=0, max_tokens=9, ignore_eos=True)

    def tokens(block_size: int) -> list[list[int]]:
        llm = LLM(str(written), backend=backend, memory_bytes=1 << 30, max_model_len=48, block_size=block_size)
        return [output.outputs[0].token_ids for output in llm.generate(prompts, params)]

    assert tokens(2) == tokens(4) == tokens(8) == tokens(16)


def test_a_block_size_that_does_not_fit(written: Path) -> None:
    with pytest.raises(ConfigError, match="block_size 3 does not fit the model, which keeps one cache entry for every"):
        LLM(str(written), backend="reference", memory_bytes=64 << 20, max_model_len=48, block_size=3)
