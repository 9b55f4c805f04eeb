"""Llama and Mistral: what the package declares, and conformance with transformers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from modelhost_llama import plugin

from modelhost.testing.hygiene import hygiene_checks
from modelhost.testing.transformers_reference import transformers_checks

SIZES: dict[str, Any] = {"vocab_size": 61, "hidden_size": 40, "intermediate_size": 45, "num_hidden_layers": 2}
SIZES |= {"num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 128, "pad_token_id": 0}
CASES: list[tuple[str, str, dict[str, Any]]] = [
    ("LlamaForCausalLM", "llama", {"attention_bias": True, "tie_word_embeddings": True}),
    ("MistralForCausalLM", "mistral", {"sliding_window": 4}),
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
    assert records == {"LlamaForCausalLM": ("llama",), "MistralForCausalLM": ()}
