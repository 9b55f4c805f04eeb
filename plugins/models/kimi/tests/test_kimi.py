"""Kimi Linear: what the package declares, and conformance with transformers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from modelhost_kimi import plugin

from modelhost.testing.hygiene import hygiene_checks
from modelhost.testing.transformers_reference import transformers_checks

SIZES: dict[str, Any] = {"vocab_size": 61, "hidden_size": 40, "intermediate_size": 45, "num_hidden_layers": 3}
SIZES |= {"num_attention_heads": 3, "num_key_value_heads": 3, "max_position_embeddings": 128, "pad_token_id": 0}
SIZES |= {"kv_lora_rank": 11, "qk_nope_head_dim": 6, "qk_rope_head_dim": 4, "v_head_dim": 5, "linear_head_dim": 9}
SIZES |= {"linear_num_heads": 2, "num_local_experts": 5, "num_experts_per_tok": 3, "moe_intermediate_size": 7}
SIZES |= {"layer_types": ["linear_attention", "full_attention", "linear_attention"]}


@pytest.mark.parametrize("check", transformers_checks("KimiLinearForCausalLM", "kimi_linear", SIZES))
def test_conformance(check: Callable[[], None]) -> None:
    check()


@pytest.mark.parametrize("check", hygiene_checks(Path(__file__).parents[1]))
def test_hygiene(check: Callable[[], None]) -> None:
    check()


def test_declaration() -> None:
    assert {record.id: record.gguf for record in plugin.modelhost_architectures()} == {
        "KimiLinearForCausalLM": ("kimi-linear",)
    }
