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


VISION = {"depth": 1, "hidden_size": 16, "intermediate_size": 24, "num_heads": 2, "patch_size": 4}
VISION |= {"spatial_merge_size": 2, "temporal_patch_size": 2, "num_position_embeddings": 16}
HYBRID = SMALL | {"num_hidden_layers": 4, "head_dim": 16, "num_attention_heads": 4}
HYBRID |= {"linear_key_head_dim": 7, "linear_value_head_dim": 9, "linear_num_key_heads": 2, "linear_num_value_heads": 6}


def sections(head_dim: int, factor: float, *sizes: int) -> dict[str, Any]:
    """Rotary fields whose pairs are shared out among the three components of a position."""
    fields = rope("default", partial_rotary_factor=factor, mrope_section=list(sizes), mrope_interleaved=True)
    return fields | {"head_dim": head_dim}


def with_vision(text: dict[str, Any], **fields: Any) -> dict[str, Any]:
    vision = VISION | {"out_hidden_size": text["hidden_size"]}
    return {"text_config": text, "vision_config": vision, "image_token_id": 60, "video_token_id": 61, **fields}


QWEN3_5_TIED = WIDE | sections(24, 0.25, 1, 1, 1) | {"layer_types": ["full_attention", "linear_attention"] * 2}
QWEN3_5_TIED |= {"num_hidden_layers": 4, "attention_bias": True, "tie_word_embeddings": True}
QWEN3_5_TIED |= {"linear_key_head_dim": 6, "linear_value_head_dim": 6, "linear_conv_kernel_dim": 3}
QWEN3_5_TIED |= {"linear_num_key_heads": 3, "linear_num_value_heads": 3}
CASES |= {
    "qwen3.5": (
        "Qwen3_5ForConditionalGeneration",
        "qwen3_5",
        with_vision(HYBRID | sections(16, 0.5, 2, 1, 1), vision_start_token_id=58, vision_end_token_id=59),
    ),
    "qwen3.5-tied-biased": (
        "Qwen3_5ForConditionalGeneration",
        "qwen3_5",
        with_vision(QWEN3_5_TIED, tie_word_embeddings=True, vision_start_token_id=58, vision_end_token_id=59),
    ),
}
EXPERTS = {"num_experts": 5, "num_experts_per_tok": 2, "moe_intermediate_size": 11}
CASES |= {
    "qwen3.5-moe": (
        "Qwen3_5MoeForConditionalGeneration",
        "qwen3_5_moe",
        with_vision(HYBRID | EXPERTS | sections(16, 0.5, 2, 1, 1) | {"shared_expert_intermediate_size": 13}),
    ),
    "qwen3.5-moe-tied": (
        "Qwen3_5MoeForConditionalGeneration",
        "qwen3_5_moe",
        with_vision(
            QWEN3_5_TIED
            | {"num_experts": 7, "num_experts_per_tok": 4, "moe_intermediate_size": 9}
            | {"shared_expert_intermediate_size": 21},
            tie_word_embeddings=True,
        ),
    ),
}


ROUTED = {"num_experts_per_tok": 3, "moe_intermediate_size": 14}
QWEN3_MOE = {"num_experts": 7, "norm_topk_prob": True} | ROUTED
QWEN3_MOE_MIXED = {"num_experts": 5, "norm_topk_prob": False, "num_experts_per_tok": 2, "moe_intermediate_size": 11}
QWEN3_MOE_MIXED |= {"num_hidden_layers": 5, "decoder_sparse_step": 2, "mlp_only_layers": [3]}
LATENT = {"kv_lora_rank": 11, "qk_nope_head_dim": 7, "qk_rope_head_dim": 6, "v_head_dim": 9, "num_key_value_heads": 6}
LATENT |= {"n_routed_experts": 9, "num_hidden_layers": 3, "first_k_dense_replace": 1, "n_shared_experts": 1} | ROUTED
LATENT_WIDE = LATENT | {"kv_lora_rank": 8, "qk_nope_head_dim": 10, "qk_rope_head_dim": 4, "v_head_dim": 5}
LATENT_WIDE |= {"head_dim": 4}
LATENT_WIDE |= {"num_attention_heads": 5, "num_key_value_heads": 5, "n_routed_experts": 12, "n_shared_experts": 2}
GROUPED = {"n_group": 4, "topk_group": 2, "routed_scaling_factor": 2.5}
UNGROUPED = {"n_group": 1, "topk_group": 1}
YARN_SCORES = rope("yarn", factor=4.0, original_max_position_embeddings=16, mscale=1.1, mscale_all_dim=0.8)
INDEXED = {"q_lora_rank": 13, "index_n_heads": 32, "index_head_dim": 8, "index_topk": 5}
CASES |= {
    "qwen3-moe": ("Qwen3MoeForCausalLM", "qwen3_moe", SMALL | {"head_dim": 8} | QWEN3_MOE),
    "qwen3-moe-mixed-window": (
        "Qwen3MoeForCausalLM",
        "qwen3_moe",
        WIDE | QWEN3_MOE_MIXED | {"use_sliding_window": True, "sliding_window": 6, "tie_word_embeddings": True},
    ),
    "deepseek-v2": (
        "DeepseekV2ForCausalLM",
        "deepseek_v2",
        SMALL
        | LATENT
        | {"kv_lora_rank": 10, "qk_nope_head_dim": 8, "q_lora_rank": None}  # transformers wants even strides
        | {"topk_method": "greedy", "n_shared_experts": 2},
    ),
    "deepseek-v2-grouped-yarn": (
        "DeepseekV2ForCausalLM",
        "deepseek_v2",
        WIDE
        | LATENT_WIDE
        | GROUPED
        | YARN_SCORES
        | {"q_lora_rank": 13, "topk_method": "group_limited_greedy", "attention_bias": True, "mlp_bias": True},
    ),
    "deepseek-v3": ("DeepseekV3ForCausalLM", "deepseek_v3", SMALL | LATENT | UNGROUPED | {"q_lora_rank": None}),
    "deepseek-v3-grouped-yarn": (
        "DeepseekV3ForCausalLM",
        "deepseek_v3",
        WIDE | LATENT_WIDE | GROUPED | YARN_SCORES | {"q_lora_rank": 13, "attention_bias": True},
    ),
    "deepseek-v3-halves": (
        "DeepseekV3ForCausalLM",
        "deepseek_v3",
        WIDE
        | LATENT_WIDE
        | GROUPED
        | {"q_lora_rank": 9, "rope_interleave": False, "norm_topk_prob": False, "tie_word_embeddings": True},
    ),
    "deepseek-v3.2": ("DeepseekV32ForCausalLM", "deepseek_v32", SMALL | LATENT | UNGROUPED | INDEXED),
    "deepseek-v3.2-grouped-yarn": (
        "DeepseekV32ForCausalLM",
        "deepseek_v32",
        WIDE | LATENT_WIDE | GROUPED | YARN_SCORES | INDEXED | {"index_topk": 9, "index_head_dim": 11},
    ),
    "glm4": ("Glm4ForCausalLM", "glm4", SMALL | {"head_dim": 8}),
    "glm4-unbiased-tied": (
        "Glm4ForCausalLM",
        "glm4",
        WIDE
        | {"head_dim": 12, "attention_bias": False, "tie_word_embeddings": True, "rms_norm_eps": 1e-3}
        | rope("linear", factor=2.5, partial_rotary_factor=0.34),
    ),
    "glm4-moe-lite": (
        "Glm4MoeLiteForCausalLM",
        "glm4_moe_lite",
        SMALL | LATENT | UNGROUPED | {"q_lora_rank": 13, "mlp_layer_types": ["sparse", "dense", "sparse"]},
    ),
    "glm4-moe-lite-grouped-yarn": (
        "Glm4MoeLiteForCausalLM",
        "glm4_moe_lite",
        WIDE | LATENT_WIDE | GROUPED | YARN_SCORES | {"q_lora_rank": None, "rms_norm_eps": 1e-3},
    ),
    "glm-moe-dsa": ("GlmMoeDsaForCausalLM", "glm_moe_dsa", SMALL | LATENT | UNGROUPED | INDEXED),
    "glm-moe-dsa-shared": (
        "GlmMoeDsaForCausalLM",
        "glm_moe_dsa",
        WIDE
        | LATENT_WIDE
        | GROUPED
        | INDEXED
        | {"num_hidden_layers": 5, "indexer_types": ["full", "shared", "shared", "full", "shared"], "index_topk": 7},
    ),
}

STREAMS: dict[str, Any] = {"vocab_size": 67, "hidden_size": 36, "moe_intermediate_size": 11, "num_hidden_layers": 5}
STREAMS |= {"num_attention_heads": 6, "head_dim": 20, "q_lora_rank": 13, "o_groups": 3, "o_lora_rank": 7}
STREAMS |= {"partial_rotary_factor": 0.4, "max_position_embeddings": 256, "sliding_window": 5, "pad_token_id": 0}
STREAMS |= {"n_routed_experts": 5, "num_experts_per_tok": 2, "hc_mult": 2, "hc_sinkhorn_iters": 3, "swiglu_limit": 0.8}
STREAMS |= {"index_n_heads": 32, "index_head_dim": 11, "index_topk": 3}
SLIDING, SPARSE, HEAVY = "sliding_attention", "compressed_sparse_attention", "heavily_compressed_attention"
CASES |= {
    "deepseek-v4": (
        "DeepseekV4ForCausalLM",
        "deepseek_v4",
        STREAMS
        | {"layer_types": [SLIDING, HEAVY, SPARSE, SPARSE, HEAVY], "compress_rates": {SPARSE: 4, HEAVY: 8}}
        | {"mlp_layer_types": ["hash_moe", "hash_moe", "moe", "moe", "moe"]},
    ),
    "deepseek-v4-yarn-tied": (
        "DeepseekV4ForCausalLM",
        "deepseek_v4",
        STREAMS
        | {"layer_types": [SPARSE, HEAVY, SLIDING, SPARSE], "compress_rates": {SPARSE: 2, HEAVY: 12}}
        | {"mlp_layer_types": ["hash_moe", "moe", "moe", "moe"], "num_hidden_layers": 4, "hidden_size": 40}
        | {"num_attention_heads": 4, "o_groups": 2, "head_dim": 16, "partial_rotary_factor": 0.375}
        | {"hc_mult": 4, "hc_sinkhorn_iters": 20, "hc_eps": 1e-4, "sliding_window": 3, "swiglu_limit": 1.1}
        | {"n_routed_experts": 7, "num_experts_per_tok": 3, "scoring_func": "sigmoid", "tie_word_embeddings": True}
        | {"compress_rope_theta": 700.0, "rms_norm_eps": 1e-3, "hidden_act": "gelu", "index_topk": 4}
        | YARN,
    ),
}
KIMI = SMALL | {"num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 4, "q_lora_rank": None}
KIMI |= {"kv_lora_rank": 9, "qk_nope_head_dim": 7, "qk_rope_head_dim": 4, "v_head_dim": 6, "num_local_experts": 5}
KIMI |= {"num_experts_per_tok": 2, "moe_intermediate_size": 11, "linear_head_dim": 7, "linear_num_heads": 3}
CASES |= {
    "kimi-linear": (
        "KimiLinearForCausalLM",
        "kimi_linear",
        KIMI | {"layer_types": ["linear_attention", "full_attention", "linear_attention", "full_attention"]},
    ),
    "kimi-linear-groups": (
        "KimiLinearForCausalLM",
        "kimi_linear",
        KIMI
        | {"num_local_experts": 6, "n_group": 3, "topk_group": 2, "num_experts_per_tok": 3, "norm_topk_prob": False}
        | {"n_shared_experts": 2, "linear_conv_kernel_dim": 3, "routed_scaling_factor": 1.7, "num_hidden_layers": 3}
        | {"linear_attn_config": {"full_attn_layers": [1, 3], "kda_layers": [2], "head_dim": 5, "num_heads": 4}}
        | {"first_k_dense_replace": 2, "rms_norm_eps": 1e-3},
    ),
}
