"""GGUF files against transformers running the Hugging Face checkpoint with the same values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from modelhost.testing.architecture import ArchitectureCase
from modelhost.testing.transformers_reference import TransformersReference, save_random

from .cases import CASES as CHECKPOINTS
from .cases import GEMMA, LINEAR, LLAMA3, SMALL, YARN
from .gguf_writer import dequantized, write_gguf

BLOCKS: dict[str, Any] = {"hidden_size": 64, "intermediate_size": 96, "head_dim": 16, "num_attention_heads": 4}
BLOCKS |= {"num_key_value_heads": 2, "vocab_size": 71, "max_position_embeddings": 256, "pad_token_id": 0}
SIZE_OF_HEAD = {"query_pre_attn_scalar": 14}

CASES: dict[str, tuple[str, str, str, dict[str, Any]]] = {
    "llama": ("LlamaForCausalLM", "llama", "llama", SMALL),
    "llama-llama3-tied-biased": (
        "LlamaForCausalLM",
        "llama",
        "llama",
        SMALL | LLAMA3 | {"tie_word_embeddings": True, "head_dim": 10, "attention_bias": True, "mlp_bias": True},
    ),
    "llama-linear": ("LlamaForCausalLM", "llama", "llama", SMALL | LINEAR),
    "qwen2": ("Qwen2ForCausalLM", "qwen2", "qwen2", SMALL),
    "qwen2-yarn-tied": ("Qwen2ForCausalLM", "qwen2", "qwen2", SMALL | YARN | {"tie_word_embeddings": True}),
    "qwen3": ("Qwen3ForCausalLM", "qwen3", "qwen3", SMALL | {"head_dim": 10}),
    "qwen3-yarn-factor": (
        "Qwen3ForCausalLM",
        "qwen3",
        "qwen3",
        SMALL | {"head_dim": 10, "rope_parameters": YARN["rope_parameters"] | {"attention_factor": 0.7}},
    ),
    "gemma": ("GemmaForCausalLM", "gemma", "gemma", GEMMA),
    "gemma2": ("Gemma2ForCausalLM", "gemma2", "gemma2", GEMMA | SIZE_OF_HEAD | {"sliding_window": 5}),
    "gemma3": (
        "Gemma3ForCausalLM",
        "gemma3_text",
        "gemma3",
        GEMMA | SIZE_OF_HEAD | {"sliding_window": 5, "num_hidden_layers": 7},
    ),
    "gemma3-linear-capped": (
        "Gemma3ForCausalLM",
        "gemma3_text",
        "gemma3",
        GEMMA
        | SIZE_OF_HEAD
        | {"sliding_window": 5, "num_hidden_layers": 6, "final_logit_softcapping": 2.0}
        | {"rope_parameters": {"full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e6}}},
    ),
}
"""By name: architecture, transformers model type, GGUF architecture, fields of the configuration."""

WITHOUT_MIXED_LAYERS = CHECKPOINTS["glm4-moe-lite-grouped-yarn"][2]
SAME_MAGNITUDE = {"rope_parameters": WITHOUT_MIXED_LAYERS["rope_parameters"] | {"mscale": 0.8, "mscale_all_dim": 0.8}}
CASES |= {
    "qwen3-moe": ("Qwen3MoeForCausalLM", "qwen3_moe", "qwen3moe", CHECKPOINTS["qwen3-moe"][2]),
    "deepseek-v2": ("DeepseekV3ForCausalLM", "deepseek_v2", "deepseek2", CHECKPOINTS["deepseek-v2"][2]),
    "deepseek-v2-grouped-yarn": (
        "DeepseekV3ForCausalLM",
        "deepseek_v2",
        "deepseek2",
        CHECKPOINTS["deepseek-v2-grouped-yarn"][2] | SAME_MAGNITUDE | {"attention_bias": False, "mlp_bias": False},
    ),
    "deepseek-v3-grouped-yarn": (
        "DeepseekV3ForCausalLM",
        "deepseek_v3",
        "deepseek2",
        CHECKPOINTS["deepseek-v3-grouped-yarn"][2] | SAME_MAGNITUDE | {"attention_bias": False},
    ),
    "glm4-moe-lite": (
        "DeepseekV3ForCausalLM",
        "glm4_moe_lite",
        "deepseek2",
        WITHOUT_MIXED_LAYERS | SAME_MAGNITUDE,
    ),
    "glm4": ("Glm4ForCausalLM", "glm4", "glm4", CHECKPOINTS["glm4"][2]),
    "glm-moe-dsa-shared": ("GlmMoeDsaForCausalLM", "glm_moe_dsa", "glm-dsa", CHECKPOINTS["glm-moe-dsa-shared"][2]),
}

PROMPTS = [[3], [5, 60, 2, 9, 31, 31, 8, 44, 1, 17, 23, 6, 52, 50, 11, 29, 35, 4, 20]]


def run(tmp_path: Path, architecture: str, file: Path, reference: Path) -> None:
    case = ArchitectureCase(
        architecture,
        checkpoint=file,
        reference=lambda _: TransformersReference(reference),
        prompts=PROMPTS,
        generated=24,
    )
    for check in ("weights", "prefill", "decode", "greedy"):
        case.run(check)


@pytest.mark.parametrize("name", CASES)
def test_float_file(name: str, tmp_path: Path) -> None:
    architecture, model_type, gguf, fields = CASES[name]
    checkpoint = save_random(tmp_path / "hf", model_type, fields)
    run(tmp_path, architecture, write_gguf(tmp_path / "model.gguf", checkpoint, gguf), checkpoint)


@pytest.mark.parametrize("name", ["llama", "qwen2", "qwen3", "gemma", "gemma2", "gemma3", "qwen3-moe"])
def test_quantized_file(name: str, tmp_path: Path) -> None:
    architecture, model_type, gguf, fields = CASES[name]
    scalar = {"query_pre_attn_scalar": 16} if name in {"gemma2", "gemma3"} else {}
    experts = {"moe_intermediate_size": 32} if name == "qwen3-moe" else {}
    checkpoint = save_random(tmp_path / "hf", model_type, fields | BLOCKS | scalar | experts)
    file = write_gguf(tmp_path / "model.gguf", checkpoint, gguf, quantized=True)
    run(tmp_path, architecture, file, dequantized(tmp_path / "rounded", checkpoint))
