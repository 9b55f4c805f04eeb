"""Fields that a config.json leaves out or states in an older form mean what transformers takes them to mean."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from modelhost.testing.architecture import ArchitectureCase
from modelhost.testing.transformers_reference import TransformersReference, save_random

from .cases import GEMMA, SMALL, WIDE

WINDOWED = {"use_sliding_window": True, "sliding_window": 4, "max_window_layers": 1}
LAYERS = {"num_hidden_layers": 7, "sliding_window": 5}
LINEAR = {"type": "linear", "factor": 2.5}
LONGROPE = {"type": "longrope", "short_factor": [1.0, 1.5, 2.0], "long_factor": [2.0, 3.5, 7.0]}

CASES: dict[str, tuple[str, str, dict[str, Any], tuple[str, ...], dict[str, Any]]] = {
    "llama-rope": (
        "LlamaForCausalLM",
        "llama",
        SMALL,
        ("rope_parameters", "head_dim", "num_key_value_heads"),
        {"num_key_value_heads": 2, "rope_theta": 700.0, "rope_scaling": LINEAR},
    ),
    "llama-no-rope": ("LlamaForCausalLM", "llama", SMALL, ("rope_parameters", "attention_bias", "mlp_bias"), {}),
    "llama-longrope-outer-length": (
        "LlamaForCausalLM",
        "llama",
        SMALL,
        ("rope_parameters",),
        {"rope_theta": 700.0, "rope_scaling": LONGROPE, "original_max_position_embeddings": 8},
    ),
    "llama-both-ropes": (
        "LlamaForCausalLM",
        "llama",
        SMALL,
        (),
        {"rope_scaling": {"rope_type": "linear", "factor": 3.0, "rope_theta": 900.0}},
    ),
    "mistral": ("MistralForCausalLM", "mistral", SMALL | {"sliding_window": 5}, ("rope_parameters", "head_dim"), {}),
    "qwen2-layers": ("Qwen2ForCausalLM", "qwen2", SMALL | WINDOWED, ("layer_types",), {"sliding_window": 4}),
    "qwen2-no-windows": (
        "Qwen2ForCausalLM",
        "qwen2",
        SMALL,
        ("layer_types",),
        {"sliding_window": 4, "max_window_layers": 0},
    ),
    "qwen3-layers": ("Qwen3ForCausalLM", "qwen3", WIDE | WINDOWED, ("layer_types",), {}),
    "gemma-activation": ("GemmaForCausalLM", "gemma", GEMMA, ("hidden_act",), {"hidden_act": "gelu"}),
    "gemma-bare": ("GemmaForCausalLM", "gemma", GEMMA, ("hidden_act", "rope_parameters", "tie_word_embeddings"), {}),
    "gemma2-bare": (
        "Gemma2ForCausalLM",
        "gemma2",
        GEMMA | LAYERS,
        (
            "layer_types",
            "rope_parameters",
            "attn_logit_softcapping",
            "final_logit_softcapping",
            "query_pre_attn_scalar",
            "hidden_activation",
            "tie_word_embeddings",
        ),
        {},
    ),
    "gemma3-bare": (
        "Gemma3ForCausalLM",
        "gemma3_text",
        GEMMA | LAYERS,
        ("layer_types", "rope_parameters", "query_pre_attn_scalar", "hidden_activation", "_sliding_window_pattern"),
        {},
    ),
    "gemma3-older": (
        "Gemma3ForCausalLM",
        "gemma3_text",
        GEMMA | LAYERS,
        ("layer_types", "rope_parameters", "_sliding_window_pattern"),
        {
            "sliding_window_pattern": 3,
            "rope_theta": 5000.0,
            "rope_local_base_freq": 90.0,
            "rope_scaling": {"rope_type": "linear", "factor": 4.0},
        },
    ),
}
"""By name: architecture, model type, fields to save with, fields to remove from the file, fields to set in it."""


@pytest.mark.parametrize("name", CASES)
def test_older_config(name: str, tmp_path: Path) -> None:
    architecture, model_type, fields, removed, changed = CASES[name]
    save_random(tmp_path, model_type, fields)
    path = tmp_path / "config.json"
    saved = json.loads(path.read_text())
    path.write_text(json.dumps({key: value for key, value in saved.items() if key not in removed} | changed))
    case = ArchitectureCase(
        architecture,
        checkpoint=tmp_path,
        reference=TransformersReference,
        prompts=[[3, 1], [5, 60, 2, 9, 31, 31, 8, 44, 1, 17, 23, 6, 52, 50]],
    )
    for check in ("weights", "prefill", "decode"):
        case.run(check)
