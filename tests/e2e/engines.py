"""Models on the cpu backend, and engines that share one compiled model."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file, save_file

from modelhost import LLM
from modelhost.api import Architecture
from modelhost.api.backend import CacheLayout
from modelhost.engine.config import EngineConfig
from modelhost.engine.engine import Engine
from modelhost.loading import create_speculator
from modelhost.plugins import boot, load_target
from modelhost.testing.checkpoints import write_random_checkpoint
from tests.models.cases import CASES


def write_case(directory: Path, name: str) -> Path:
    """Write a checkpoint with random weights of one of the shapes that are compared with transformers."""
    architecture, _, fields = CASES[name]
    model = load_target(boot().find(Architecture, architecture))
    path = write_random_checkpoint(directory / name, architecture, model, fields)
    _number_experts(path / "model.safetensors", fields.get("n_routed_experts", 0))
    return path


def _number_experts(file: Path, experts: int) -> None:
    """Where the experts of a token are looked up, give it any of those there are."""
    rng = np.random.default_rng(0)
    tensors = load_file(file)
    tables = {name: table for name, table in tensors.items() if name.endswith("tid2eid")}
    for name, (rows, chosen) in ((name, table.shape) for name, table in tables.items()):
        tensors[name] = np.argsort(rng.random((rows, experts)))[:, :chosen].astype(np.int64)
    if tables:
        save_file(tensors, file)


def another_engine(llm: LLM, *, cache_tokens: int | None = None, **changes: Any) -> Engine:
    """An engine that runs the compiled model of ``llm`` with an empty cache and other settings.

    Both engines keep their blocks in the same memory: once the new one has run, an older one must not run any more.

    Args:
        cache_tokens: tokens that every KV group holds; at most as many as the cache of ``llm``.
        changes: of the settings; those of the backend and of memory have no effect.
    """
    model, first = llm.model, llm.model.engine
    config = EngineConfig(**(first.config.model_dump(exclude_unset=True) | changes))
    memory = model.prepared.memory
    if cache_tokens is not None:
        blocks = dict.fromkeys(memory.layout.blocks, 1 + cache_tokens // memory.layout.block_size)
        assert all(blocks[group] <= most for group, most in memory.layout.blocks.items())
        memory = replace(memory, layout=CacheLayout(memory.layout.block_size, blocks))
    return Engine(
        first.executable,
        memory,
        config,
        vocab_size=first.vocab_size,
        eos_token_ids=model.tokenizer.eos_token_ids if model.tokenizer else (),
        tokenizer=model.tokenizer,
        length_dependent="lengths" in model.prepared.graph.inputs,
        speculator=create_speculator(model.prepared, model.registry, config),
    )
