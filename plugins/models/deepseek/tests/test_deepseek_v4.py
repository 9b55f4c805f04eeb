"""DeepSeek-V4: conformance with transformers, the forms of its configuration, and the names of its tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from modelhost_deepseek.deepseek_v4 import DeepseekV4
from modelhost_deepseek.deepseek_v4_config import HEAVY, SLIDING, SPARSE, DeepseekV4Config
from modelhost_deepseek.deepseek_v4_names import checkpoint_names

from modelhost.api import ConfigError, WeightError
from modelhost.api.weight import Weight
from modelhost.testing.transformers_reference import transformers_checks

SIZES: dict[str, Any] = {"vocab_size": 61, "hidden_size": 28, "moe_intermediate_size": 9, "num_hidden_layers": 4}
SIZES |= {"num_attention_heads": 6, "head_dim": 14, "q_lora_rank": 11, "o_groups": 2, "o_lora_rank": 5}
SIZES |= {"index_n_heads": 32, "index_head_dim": 8, "index_topk": 2, "n_routed_experts": 5, "num_experts_per_tok": 2}
FIELDS = SIZES | {"max_position_embeddings": 128, "sliding_window": 4, "hc_mult": 3, "hc_sinkhorn_iters": 4}
FIELDS |= {"partial_rotary_factor": 3 / 7, "swiglu_limit": 0.9, "pad_token_id": 0}
FIELDS |= {"layer_types": [SLIDING, SPARSE, HEAVY, SPARSE], "compress_rates": {SPARSE: 2, HEAVY: 8}}
FIELDS |= {"mlp_layer_types": ["hash_moe", "moe", "moe", "moe"]}
YARN = {"type": "yarn", "factor": 16, "original_max_position_embeddings": 65536, "beta_fast": 32, "beta_slow": 1}


@pytest.mark.parametrize("check", transformers_checks("DeepseekV4ForCausalLM", "deepseek_v4", FIELDS))
def test_conformance(check: Callable[[], None]) -> None:
    check()


def read(fields: Mapping[str, Any]) -> DeepseekV4Config:
    return DeepseekV4Config.from_huggingface(SimpleNamespace(config=fields), "config.json")  # type: ignore[arg-type]


def test_fields_of_published_files() -> None:
    """Numbers for the layers, sizes and scaling under other names, and an entry for the layer that predicts further."""
    ratios = {"compress_ratios": [0, 128, 4, 128, 4], "num_hash_layers": 2, "qk_rope_head_dim": 6}
    ropes = {"rope_theta": 5000.0, "compress_rope_theta": 90000.0, "rope_scaling": YARN}
    config = read(SIZES | ratios | ropes)
    assert config.layer_types == (SLIDING, HEAVY, SPARSE, HEAVY)
    assert config.mlp_layer_types == ("hash_moe", "hash_moe", "moe", "moe")
    assert (config.sparse_rate, config.heavy_rate) == (4, 128)
    assert config.main_rope.model_dump(exclude_defaults=True) == {
        "rope_theta": 5000.0,
        "partial_rotary_factor": 6 / 14,
    }
    assert (config.compress_rope.rope_type, config.compress_rope.factor) == ("yarn", 16)
    assert (config.compress_rope.rope_theta, config.compress_rope.attention_factor) == (90000.0, 1.0)
    assert config.compress_rope.partial_rotary_factor == 6 / 14


def test_fields_that_are_left_out() -> None:
    config = read(SIZES | {"num_hidden_layers": 6, "head_dim": 16, "compress_rate_hca": 32})
    assert config.layer_types == (HEAVY, HEAVY, HEAVY, SPARSE, HEAVY, SPARSE)
    assert config.mlp_layer_types == ("hash_moe",) * 3 + ("moe",) * 3
    assert (config.sparse_rate, config.heavy_rate) == (4, 32)
    assert (config.main_rope.rotated(16), config.main_rope.rope_theta) == (2, 10000.0)
    assert (config.compress_rope.rope_type, config.compress_rope.rope_theta) == ("default", 160000.0)


ROPES = {"main": {"rope_type": "default"}, "compress": {"rope_type": "default"}}
ERRORS: dict[str, tuple[dict[str, Any], str]] = {
    "unknown attention": (
        {"layer_types": [SLIDING, "full_attention", HEAVY, SPARSE]},
        "layer_types.1: Input should be 'sliding_attention', 'compressed_sparse_attention' or "
        "'heavily_compressed_attention', got 'full_attention'",
    ),
    "unknown ratio": (
        {"layer_types": None, "compress_ratios": [0, 4, 8, 4]},
        "compress_ratios.2: Input should be 'sliding_attention', 'compressed_sparse_attention' or "
        "'heavily_compressed_attention', got 8",
    ),
    "layers of another number": (
        {"layer_types": [SLIDING] * 3},
        "(model): layer_types has 3 entries, num_hidden_layers is 4",
    ),
    "groups that do not divide": (
        {"o_groups": 4},
        "(model): num_attention_heads 6 is not a multiple of o_groups 4",
    ),
    "more experts than there are": (
        {"num_experts_per_tok": 6},
        "(model): num_experts_per_tok 6 is more than n_routed_experts 5",
    ),
    "unknown router": (
        {"scoring_func": "tanh"},
        "scoring_func: Input should be 'sigmoid' or 'sqrtsoftplus', got 'tanh'",
    ),
    "several key heads": ({"num_key_value_heads": 2}, "num_key_value_heads: Input should be 1, got 2"),
    "entries of single tokens": (
        {"compress_rates": {SPARSE: 1, HEAVY: 8}},
        "(model): compress_rates must be at least 2, got 1 and 8",
    ),
    "rate that is no number": (
        {"compress_rates": {SPARSE: 2, HEAVY: "all"}},
        "compress_rates.heavily_compressed_attention: Input should be a valid integer, unable to parse string as an "
        "integer, got 'all'",
    ),
    "unknown rope": (
        {"rope_parameters": ROPES | {"compress": {"rope_type": "spiral"}}},
        "rope_parameters.compress.rope_type: Input should be 'default', 'linear', 'dynamic', 'yarn', 'llama3' or "
        "'longrope', got 'spiral'",
    ),
    "rope that depends on the length": (
        {"rope_parameters": ROPES | {"main": {"rope_type": "dynamic", "factor": 2.0}}},
        "(model): rope_parameters.main: rope_type 'dynamic' is not supported here",
    ),
    "small index heads": (
        {"rope_parameters": ROPES},
        "(model): index_head_dim 8 is less than the 14 dimensions to rotate",
    ),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors(name: str) -> None:
    fields, line = ERRORS[name]
    with pytest.raises(ConfigError) as raised:
        read(FIELDS | fields)
    assert str(raised.value) == f"config.json does not describe a DeepseekV4 model:\n  {line}"


@pytest.mark.parametrize(
    ("parameter", "published", "written"),
    [
        ("model.embed_tokens.weight", "embed.weight", "model.embed_tokens.weight"),
        ("lm_head.weight", "head.weight", "head.weight"),
        ("model.hc_head.hc_scale", "hc_head_scale", "model.hc_head.hc_scale"),
        ("model.layers.3.self_attn.sinks", "layers.3.attn.attn_sink", "model.layers.3.attn.attn_sink"),
        ("model.layers.3.self_attn.kv_norm.weight", "layers.3.attn.kv_norm.weight", "model.layers.3.attn.norm.weight"),
        (
            "model.layers.3.self_attn.compressor.indexer.position_bias",
            "layers.3.attn.indexer.compressor.ape",
            "model.layers.3.attn.indexer.compressor.ape",
        ),
        (
            "model.layers.3.mlp.experts.up_proj.weight",
            "layers.3.ffn.experts.w3.weight",
            "model.layers.3.ffn.experts.w3.weight",
        ),
    ],
)
def test_names(parameter: str, published: str, written: str) -> None:
    assert checkpoint_names(parameter) == tuple(dict.fromkeys((published, written, parameter)))


@pytest.mark.parametrize("number", [-1, 5, 2**31 - 1])
def test_a_table_of_experts_that_do_not_exist(number: int) -> None:
    transform = DeepseekV4(read(FIELDS)).huggingface_transform("model.layers.0.mlp.gate.tid2eid")
    table = np.zeros((61, 2), np.float32)
    assert transform is not None
    assert transform(Weight.of_values("tid2eid", table)).shape == (61, 2)
    table[7, 1] = number
    with pytest.raises(WeightError, match=r"numbered 0 to 4 \(n_routed_experts in config.json\), found"):
        transform(Weight.of_values("tid2eid", table))
