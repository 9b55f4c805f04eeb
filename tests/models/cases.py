"""The checkpoints that are compared with transformers: model type and configuration of each."""

from __future__ import annotations

from typing import Any

SMALL: dict[str, Any] = {"vocab_size": 67, "hidden_size": 36, "intermediate_size": 53, "num_hidden_layers": 2}
SMALL |= {"num_attention_heads": 6, "num_key_value_heads": 2, "max_position_embeddings": 256, "pad_token_id": 0}
WIDE = SMALL | {"vocab_size": 71, "hidden_size": 40, "intermediate_size": 61, "num_hidden_layers": 3}
WIDE |= {"num_attention_heads": 5, "num_key_value_heads": 1, "head_dim": 10}
GEMMA = WIDE | {"head_dim": 14}
FACTORS = {"short_factor": [1.0, 1.5, 2.0], "long_factor": [2.0, 3.5, 7.0]}


def rope(kind: str, **fields: Any) -> dict[str, Any]:
    return {"rope_parameters": {"rope_type": kind, "rope_theta": 5000.0, **fields}}


LLAMA3 = rope("llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=24)
YARN = rope("yarn", factor=4.0, original_max_position_embeddings=16, beta_fast=8.0, beta_slow=0.5)
YARN_MSCALE = rope(
    "yarn", factor=4.0, original_max_position_embeddings=16, mscale=1.2, mscale_all_dim=0.7, truncate=False
)
LONGROPE = rope("longrope", original_max_position_embeddings=8, factor=4.0, **FACTORS)
LONGROPE_RATIO = rope("longrope", original_max_position_embeddings=8, **FACTORS)
DYNAMIC = rope("dynamic", factor=3.0) | {"max_position_embeddings": 16}
LINEAR = rope("linear", factor=2.5)

CASES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "llama": ("LlamaForCausalLM", "llama", SMALL),
    "llama-biased-tied": (
        "LlamaForCausalLM",
        "llama",
        WIDE | {"tie_word_embeddings": True, "attention_bias": True, "mlp_bias": True, "hidden_act": "gelu"},
    ),
    "llama-linear": ("LlamaForCausalLM", "llama", SMALL | LINEAR),
    "llama-dynamic": ("LlamaForCausalLM", "llama", SMALL | DYNAMIC),
    "llama-llama3": ("LlamaForCausalLM", "llama", WIDE | LLAMA3),
    "llama-yarn": ("LlamaForCausalLM", "llama", SMALL | YARN),
    "llama-yarn-mscale": ("LlamaForCausalLM", "llama", WIDE | YARN_MSCALE),
    "llama-longrope": ("LlamaForCausalLM", "llama", SMALL | LONGROPE),
    "llama-longrope-ratio": ("LlamaForCausalLM", "llama", SMALL | LONGROPE_RATIO),
    "mistral": ("MistralForCausalLM", "mistral", SMALL | {"sliding_window": None}),
    "mistral-window": ("MistralForCausalLM", "mistral", WIDE | {"sliding_window": 5, "tie_word_embeddings": True}),
    "mistral-yarn": ("MistralForCausalLM", "mistral", SMALL | YARN | {"sliding_window": 7}),
    "qwen2": ("Qwen2ForCausalLM", "qwen2", SMALL),
    "qwen2-window-tied": (
        "Qwen2ForCausalLM",
        "qwen2",
        SMALL
        | {"num_hidden_layers": 3, "tie_word_embeddings": True}
        | {"use_sliding_window": True, "sliding_window": 4, "max_window_layers": 1},
    ),
    "qwen2-yarn": ("Qwen2ForCausalLM", "qwen2", SMALL | YARN),
    "qwen2-dynamic": ("Qwen2ForCausalLM", "qwen2", SMALL | DYNAMIC),
    "qwen3": ("Qwen3ForCausalLM", "qwen3", WIDE),
    "qwen3-window-tied": (
        "Qwen3ForCausalLM",
        "qwen3",
        WIDE
        | {"attention_bias": True, "tie_word_embeddings": True, "use_sliding_window": True, "sliding_window": 6}
        | {"layer_types": ["sliding_attention", "full_attention", "sliding_attention"]},
    ),
    "qwen3-longrope": ("Qwen3ForCausalLM", "qwen3", WIDE | {"head_dim": 6} | LONGROPE),
    "gemma": ("GemmaForCausalLM", "gemma", GEMMA),
    "gemma-untied-linear": (
        "GemmaForCausalLM",
        "gemma",
        SMALL | {"head_dim": 8, "tie_word_embeddings": False, "attention_bias": True} | LINEAR,
    ),
    "gemma2": ("Gemma2ForCausalLM", "gemma2", GEMMA | {"sliding_window": 5, "query_pre_attn_scalar": 11}),
    "gemma2-untied": (
        "Gemma2ForCausalLM",
        "gemma2",
        SMALL
        | {"head_dim": 8, "sliding_window": 4, "tie_word_embeddings": False, "num_hidden_layers": 4}
        | {"attn_logit_softcapping": 0.5, "final_logit_softcapping": None},
    ),
    "gemma2-dynamic": ("Gemma2ForCausalLM", "gemma2", GEMMA | DYNAMIC | {"sliding_window": 6}),
    "gemma3": (
        "Gemma3ForCausalLM",
        "gemma3_text",
        GEMMA | {"num_hidden_layers": 7, "sliding_window": 5, "query_pre_attn_scalar": 9},
    ),
    "gemma3-scaled-untied": (
        "Gemma3ForCausalLM",
        "gemma3_text",
        SMALL
        | {"head_dim": 8, "sliding_window": 4, "num_hidden_layers": 3, "tie_word_embeddings": False}
        | {"layer_types": ["full_attention", "sliding_attention", "full_attention"], "final_logit_softcapping": 2.0}
        | {
            "rope_parameters": {
                "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 50000.0},
                "sliding_attention": {"rope_type": "default", "rope_theta": 300.0},
            }
        },
    ),
}
"""By name: architecture, transformers model type, fields of the configuration."""
