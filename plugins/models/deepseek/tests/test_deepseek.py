"""DeepSeek-V2, V3 and V3.2: conformance with transformers, and what is kept of a token."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from modelhost_deepseek import plugin
from modelhost_deepseek.deepseek import DeepseekV3, DeepseekV3Config, DeepseekV32, DeepseekV32Config

from modelhost.testing.hygiene import hygiene_checks
from modelhost.testing.transformers_reference import transformers_checks

SIZES: dict[str, Any] = {"vocab_size": 61, "hidden_size": 28, "intermediate_size": 45, "num_hidden_layers": 3}
SIZES |= {"num_attention_heads": 4, "num_key_value_heads": 4, "max_position_embeddings": 128, "pad_token_id": 0}
SIZES |= {"kv_lora_rank": 10, "qk_nope_head_dim": 8, "qk_rope_head_dim": 4, "v_head_dim": 7, "q_lora_rank": 9}
SIZES |= {"n_routed_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 11, "n_shared_experts": 1}
SIZES |= {"first_k_dense_replace": 1, "n_group": 3, "topk_group": 2}
INDEXER = {"index_n_heads": 32, "index_head_dim": 6, "index_topk": 5}
CASES: list[tuple[str, str, dict[str, Any]]] = [
    ("DeepseekV2ForCausalLM", "deepseek_v2", SIZES | {"topk_method": "group_limited_greedy", "n_shared_experts": 2}),
    ("DeepseekV3ForCausalLM", "deepseek_v3", SIZES),
    ("DeepseekV32ForCausalLM", "deepseek_v32", SIZES | INDEXER),
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
    assert {name: records[name] for name, _, _ in CASES} == {
        "DeepseekV2ForCausalLM": (),
        "DeepseekV3ForCausalLM": ("deepseek2",),
        "DeepseekV32ForCausalLM": (),
    }


def test_only_the_latent_and_the_rotated_part_are_cached() -> None:
    fields = SIZES | {"head_dim": SIZES["qk_rope_head_dim"]}
    states = dict(DeepseekV3(DeepseekV3Config(**fields)).named_states())
    assert list(states) == [f"model.layers.{layer}.self_attn.cache" for layer in range(3)]
    assert {state.spec.bytes_per_token("bfloat16") for state in states.values()} == {2 * (10 + 4)}
    indexed = dict(DeepseekV32(DeepseekV32Config(**fields | INDEXER)).named_states())
    assert indexed["model.layers.0.self_attn.indexer.cache"].spec.bytes_per_token("bfloat16") == 2 * 6
