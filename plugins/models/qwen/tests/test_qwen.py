"""Qwen2, Qwen3 and Qwen3.5: what the package declares, and conformance with transformers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from modelhost_qwen import plugin

from modelhost.testing.hygiene import hygiene_checks
from modelhost.testing.transformers_reference import transformers_checks

SIZES: dict[str, Any] = {"vocab_size": 61, "hidden_size": 40, "intermediate_size": 45, "num_hidden_layers": 2}
SIZES |= {"num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 128, "pad_token_id": 0}
CASES: list[tuple[str, str, dict[str, Any]]] = [
    ("Qwen2ForCausalLM", "qwen2", SIZES | {"use_sliding_window": True, "sliding_window": 4, "max_window_layers": 1}),
    ("Qwen3ForCausalLM", "qwen3", SIZES | {"head_dim": 10, "tie_word_embeddings": True}),
]
HYBRID: dict[str, Any] = SIZES | {"num_hidden_layers": 4, "head_dim": 12, "linear_num_key_heads": 2}
HYBRID |= {"linear_num_value_heads": 4, "linear_key_head_dim": 6, "linear_value_head_dim": 5}
HYBRID |= {"rope_parameters": {"rope_theta": 5000.0, "partial_rotary_factor": 0.5, "mrope_section": [1, 1, 1]}}
VISION: dict[str, Any] = {"depth": 1, "hidden_size": 16, "intermediate_size": 24, "num_heads": 2, "patch_size": 4}
VISION |= {"out_hidden_size": 40, "num_position_embeddings": 16}
EXPERTS: dict[str, Any] = {"num_experts": 5, "num_experts_per_tok": 3, "moe_intermediate_size": 11}
CASES += [
    ("Qwen3MoeForCausalLM", "qwen3_moe", SIZES | EXPERTS | {"norm_topk_prob": True, "mlp_only_layers": [0]}),
    ("Qwen3_5ForConditionalGeneration", "qwen3_5", {"text_config": HYBRID, "vision_config": VISION}),
    (
        "Qwen3_5MoeForConditionalGeneration",
        "qwen3_5_moe",
        {"text_config": HYBRID | EXPERTS | {"shared_expert_intermediate_size": 9}, "vision_config": VISION},
    ),
]
CHECKS = [check for name, kind, fields in CASES for check in transformers_checks(name, kind, fields)]


@pytest.mark.parametrize("check", CHECKS)
def test_conformance(check: Callable[[], None]) -> None:
    check()


@pytest.mark.parametrize("check", hygiene_checks(Path(__file__).parents[1]))
def test_hygiene(check: Callable[[], None]) -> None:
    check()


def test_declaration() -> None:
    records = {record.id: record.gguf for record in plugin.modelhost_architectures()}
    assert records == {
        "Qwen2ForCausalLM": ("qwen2",),
        "Qwen3ForCausalLM": ("qwen3",),
        "Qwen3MoeForCausalLM": ("qwen3moe",),
        "Qwen3_5ForConditionalGeneration": ("qwen35",),
        "Qwen3_5MoeForConditionalGeneration": ("qwen35moe",),
    }
