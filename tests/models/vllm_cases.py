"""The random checkpoints that were run with vLLM. Sizes are such that its CPU kernels take them."""

from __future__ import annotations

from typing import Any

SIZES: dict[str, Any] = {"vocab_size": 128, "hidden_size": 128, "intermediate_size": 96, "num_hidden_layers": 3}
SIZES |= {"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32, "max_position_embeddings": 128}
SIZES |= {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
YARN = {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "original_max_position_embeddings": 32}

CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("llama", SIZES),
    "llama-yarn": ("llama", SIZES | {"rope_parameters": YARN, "tie_word_embeddings": True}),
    "mistral": ("mistral", SIZES | {"sliding_window": None}),
    "qwen2": ("qwen2", {name: value for name, value in SIZES.items() if name != "head_dim"}),
    "qwen3": ("qwen3", SIZES),
    "gemma": ("gemma", SIZES),
    "gemma2": ("gemma2", SIZES | {"sliding_window": 8, "query_pre_attn_scalar": 32}),
    "gemma3": ("gemma3_text", SIZES | {"num_hidden_layers": 6, "sliding_window": 8, "query_pre_attn_scalar": 32}),
    "glm4": ("glm4", SIZES | {"partial_rotary_factor": 0.5, "attention_bias": True}),
}
PROMPT = [3, 5, 9, 33, 7, 60, 3, 14, 22, 41, 11, 6, 99, 120, 17, 5, 9]
TOKENS = 24
