"""Gemma 1, 2 and 3 (text): what the package declares, and conformance with transformers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from modelhost_gemma import plugin

from modelhost.testing.hygiene import hygiene_checks
from modelhost.testing.transformers_reference import transformers_checks

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
CHECKS = [check for name, kind, fields in CASES for check in transformers_checks(name, kind, SIZES | fields)]


@pytest.mark.parametrize("check", CHECKS)
def test_conformance(check: Callable[[], None]) -> None:
    check()


@pytest.mark.parametrize("check", hygiene_checks(Path(__file__).parents[1]))
def test_hygiene(check: Callable[[], None]) -> None:
    check()


def test_declaration() -> None:
    records = {record.id: record.gguf for record in plugin.modelhost_architectures()}
    assert records == {
        "GemmaForCausalLM": ("gemma",),
        "Gemma2ForCausalLM": ("gemma2",),
        "Gemma3ForCausalLM": ("gemma3",),
    }
