"""GLM: what the package declares, and conformance with transformers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from modelhost_glm import plugin
from modelhost_glm.glm_moe import GlmMoeDsa, GlmMoeDsaConfig

from modelhost.testing.hygiene import hygiene_checks
from modelhost.testing.transformers_reference import transformers_checks

SIZES: dict[str, Any] = {"vocab_size": 61, "hidden_size": 28, "intermediate_size": 45, "num_hidden_layers": 3}
SIZES |= {"num_attention_heads": 4, "max_position_embeddings": 128, "pad_token_id": 0}
LATENT = SIZES | {"kv_lora_rank": 9, "qk_nope_head_dim": 5, "qk_rope_head_dim": 4, "v_head_dim": 7, "q_lora_rank": 11}
LATENT |= {"n_routed_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 11, "n_shared_experts": 1}
LATENT |= {"n_group": 3, "topk_group": 2, "num_key_value_heads": 4}
INDEXED = LATENT | {"index_n_heads": 32, "index_head_dim": 6, "index_topk": 5, "first_k_dense_replace": 1}
INDEXED |= {"indexer_types": ["full", "shared", "full"]}
CASES: list[tuple[str, str, dict[str, Any]]] = [
    ("Glm4ForCausalLM", "glm4", SIZES | {"head_dim": 12, "num_key_value_heads": 2}),
    ("Glm4MoeLiteForCausalLM", "glm4_moe_lite", LATENT),
    ("GlmMoeDsaForCausalLM", "glm_moe_dsa", INDEXED),
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
        "Glm4ForCausalLM": ("glm4",),
        "Glm4MoeLiteForCausalLM": (),
        "GlmMoeDsaForCausalLM": ("glm-dsa",),
    }


def test_layers_that_share_an_indexer_have_none_of_their_own() -> None:
    model = GlmMoeDsa(GlmMoeDsaConfig(**INDEXED | {"head_dim": 4}))
    caches = [name for name, _ in model.named_states() if "indexer" in name]
    assert caches == [f"model.layers.{layer}.self_attn.indexer.cache" for layer in (0, 2)]
