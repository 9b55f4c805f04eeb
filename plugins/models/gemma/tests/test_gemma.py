"""Gemma 1, 2 and 3 (text): what the package declares, and conformance with transformers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import torch
from modelhost_gemma import plugin
from transformers import AutoConfig, AutoModelForCausalLM

from modelhost.testing.architecture import ArchitectureCase, Reference

SIZES: dict[str, Any] = {"vocab_size": 61, "hidden_size": 40, "intermediate_size": 45, "num_hidden_layers": 2}
SIZES |= {"num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 128, "pad_token_id": 0}
CASES: list[tuple[str, str, dict[str, Any]]] = [
    ("GemmaForCausalLM", "gemma", {"head_dim": 10}),
    ("Gemma2ForCausalLM", "gemma2", {"head_dim": 10, "sliding_window": 4, "query_pre_attn_scalar": 7}),
    (
        "Gemma3ForCausalLM",
        "gemma3_text",
        {"head_dim": 10, "sliding_window": 4, "query_pre_attn_scalar": 7, "num_hidden_layers": 7},
    ),
]
KEPT = TemporaryDirectory(prefix="modelhost-gemma-")


@cache
def checkpoint(architecture: str) -> Path:
    model_type, fields = next((kind, fields) for name, kind, fields in CASES if name == architecture)
    config = AutoConfig.for_model(model_type, **SIZES | fields)
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            parameter.copy_(
                noise * 0.9 / parameter.shape[-1] ** 0.5 if parameter.dim() > 1 else parameter + 0.2 * noise
            )
    model.save_pretrained(Path(KEPT.name) / architecture)
    return Path(KEPT.name) / architecture


def transformers_logits(path: Path) -> Reference:
    torch.set_num_threads(1)
    model = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32, attn_implementation="eager").eval()

    @torch.no_grad()
    def logits(prompt: Sequence[int], continuation: Sequence[int]) -> Any:
        output = model(torch.tensor([list(prompt)]), use_cache=True)
        rows = [output.logits[0]]
        for token in continuation:
            output = model(torch.tensor([[token]]), cache=output.cache, use_cache=True)
            rows.append(output.logits[0])
        return torch.cat(rows).numpy()

    return logits


def checks(architecture: str) -> list[Any]:
    case = ArchitectureCase(
        architecture, checkpoint=partial(checkpoint, architecture), reference=transformers_logits, generated=24
    )
    return [pytest.param(check.values[0], id=f"{architecture}-{check.id}") for check in case.checks()]


@pytest.mark.parametrize("check", [check for architecture, _, _ in CASES for check in checks(architecture)])
def test_conformance(check: Callable[[], None]) -> None:
    check()


def test_declaration() -> None:
    records = {record.id: record.gguf for record in plugin.modelhost_architectures()}
    assert records == {
        "GemmaForCausalLM": ("gemma",),
        "Gemma2ForCausalLM": ("gemma2",),
        "Gemma3ForCausalLM": ("gemma3",),
    }
