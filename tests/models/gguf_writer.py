"""Turning a small Hugging Face checkpoint into a GGUF file with the keys and tensors that llama.cpp's converter writes.

Facts: llama.cpp ``conversion/base.py``, ``llama.py``, ``qwen.py`` and ``gemma.py``. Tensor names are those of the
``gguf`` package, so the names in the model families are not tested against themselves.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import numpy.typing as npt
from gguf.quants import dequantize, quantize
from safetensors.numpy import load_file, save_file

Q8_0, F32 = gguf.GGMLQuantizationType.Q8_0, gguf.GGMLQuantizationType.F32
Array = npt.NDArray[np.float32]


def write_gguf(path: Path, checkpoint: Path, architecture: str, *, quantized: bool = False) -> Path:
    """Write ``path`` from the directory ``checkpoint``; matrices as Q8_0 when ``quantized``, else all as F32."""
    config = json.loads((checkpoint / "config.json").read_text())
    writer = gguf.GGUFWriter(path, architecture)
    _write_metadata(writer, architecture, config)
    for name, values in _tensors(checkpoint, architecture, config):
        if quantized and values.ndim > 1:
            writer.add_tensor(name, quantize(values, Q8_0), raw_dtype=Q8_0)
        else:
            writer.add_tensor(name, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def dequantized(directory: Path, checkpoint: Path, *, only: str = "") -> Path:
    """A copy of ``checkpoint`` whose matrices hold the values that Q8_0 leaves of them.

    Args:
        only: part of the names of those that are meant.
    """
    directory.mkdir()
    tensors = load_file(checkpoint / "model.safetensors")
    rounded = {
        n: dequantize(quantize(v, Q8_0), Q8_0) if v.ndim == 2 and only in n and "visual" not in n else v
        for n, v in tensors.items()
    }
    save_file(rounded, directory / "model.safetensors", metadata={"format": "pt"})
    (directory / "config.json").write_text((checkpoint / "config.json").read_text())
    return directory


def _write_metadata(writer: gguf.GGUFWriter, architecture: str, config: dict[str, Any]) -> None:
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    if architecture in {"llama", "qwen3", "gemma", "gemma2", "gemma3"} and config.get("head_dim"):
        writer.add_key_length(config["head_dim"])
        writer.add_value_length(config["head_dim"])
    if architecture == "llama":
        writer.add_vocab_size(config["vocab_size"])
        writer.add_rope_dimension_count(config["head_dim"])
    rope = config["rope_parameters"].get("full_attention", config["rope_parameters"])
    if architecture not in {"gemma", "gemma2"}:
        writer.add_rope_freq_base(rope["rope_theta"])
        _write_scaling(writer, rope)
    if architecture == "gemma2":
        writer.add_attn_logit_softcapping(config["attn_logit_softcapping"])
    if architecture in {"qwen3moe", "glm4"}:
        writer.add_key_length(config["head_dim"])
        writer.add_value_length(config["head_dim"])
    if architecture == "glm4":
        writer.add_rope_dimension_count(int(config["head_dim"] * rope["partial_rotary_factor"]))
    if architecture == "qwen3moe":
        writer.add_expert_count(config.get("num_experts", config.get("num_local_experts")))
        writer.add_expert_used_count(config["num_experts_per_tok"])
        writer.add_expert_feed_forward_length(config["moe_intermediate_size"])
    if "kv_lora_rank" in config:
        write_latent_metadata(writer, config)
    if config.get("final_logit_softcapping"):
        writer.add_final_logit_softcapping(config["final_logit_softcapping"])
    if architecture in {"gemma2", "gemma3"}:
        writer.add_sliding_window(config["sliding_window"])


def _write_scaling(writer: gguf.GGUFWriter, rope: dict[str, Any]) -> None:
    if rope["rope_type"] in {"linear", "yarn"}:
        writer.add_rope_scaling_type(gguf.RopeScalingType(rope["rope_type"]))
        writer.add_rope_scaling_factor(rope["factor"])
    if rope["rope_type"] == "yarn":
        writer.add_rope_scaling_orig_ctx_len(rope["original_max_position_embeddings"])
        for field, add in (
            ("attention_factor", writer.add_rope_scaling_yarn_attn_factor),
            ("beta_fast", writer.add_rope_scaling_yarn_beta_fast),
            ("beta_slow", writer.add_rope_scaling_yarn_beta_slow),
        ):
            if rope.get(field) is not None:
                add(rope[field])


def _tensors(checkpoint: Path, architecture: str, config: dict[str, Any]) -> Iterator[tuple[str, Array]]:
    kind = next(key for key, name in gguf.MODEL_ARCH_NAMES.items() if name == architecture)
    names = gguf.get_tensor_name_map(kind, config["num_hidden_layers"])
    for name, values in stacked_experts(load_file(checkpoint / "model.safetensors")):
        if "kv_b_proj" in name:
            yield from split_up_projection(name.split(".")[2], values, config)
            continue
        if architecture == "llama" and "q_proj" in name:
            values = _permuted(values, config["num_attention_heads"])
        elif architecture == "llama" and "k_proj" in name:
            values = _permuted(values, config["num_key_value_heads"])
        elif architecture.startswith("gemma") and name.endswith("norm.weight"):
            values = values + 1
        if name.endswith("e_score_correction_bias"):
            name = name.replace("_bias", ".bias")
        stored = names.get_name(name, try_suffixes=(".weight", ".bias"))
        assert stored is not None, name
        yield stored, np.ascontiguousarray(values, np.float32)
    if architecture == "llama" and config["rope_parameters"]["rope_type"] == "llama3":
        yield "rope_freqs.weight", _llama3_factors(config)


def stacked_experts(tensors: dict[str, Array]) -> Iterator[tuple[str, Array]]:
    """The tensors, those of experts stacked in order of the experts."""
    experts: dict[str, dict[int, Array]] = {}
    for name, values in tensors.items():
        prefix, found, rest = name.partition(".experts.")
        if not found:
            yield name, values
            continue
        number, _, projection = rest.partition(".")
        experts.setdefault(f"{prefix}.experts.{projection}", {})[int(number)] = values
    for name, each in experts.items():
        yield name, np.stack([each[number] for number in range(len(each))])


def write_latent_metadata(writer: gguf.GGUFWriter, config: dict[str, Any]) -> None:
    """Keys of latent attention, of experts and of an indexer."""
    rope = config["rope_parameters"]
    writer.add_head_count_kv(1)
    if config.get("q_lora_rank"):
        writer.add_q_lora_rank(config["q_lora_rank"])
    writer.add_kv_lora_rank(config["kv_lora_rank"])
    writer.add_key_length(config["kv_lora_rank"] + config["qk_rope_head_dim"])
    writer.add_value_length(config["kv_lora_rank"])
    writer.add_key_length_mla(config["qk_nope_head_dim"] + config["qk_rope_head_dim"])
    writer.add_value_length_mla(config["v_head_dim"])
    writer.add_rope_dimension_count(config["qk_rope_head_dim"])
    if rope.get("mscale_all_dim"):
        writer.add_rope_scaling_yarn_log_mul(0.1 * rope["mscale_all_dim"])
    writer.add_leading_dense_block_count(config.get("first_k_dense_replace", 1))
    writer.add_expert_feed_forward_length(config["moe_intermediate_size"])
    writer.add_expert_count(config["n_routed_experts"])
    writer.add_expert_used_count(config["num_experts_per_tok"])
    writer.add_expert_shared_count(config["n_shared_experts"])
    writer.add_expert_weights_scale(config["routed_scaling_factor"])
    if config.get("norm_topk_prob"):
        writer.add_expert_weights_norm(True)
    if config.get("n_group"):
        writer.add_expert_group_count(config["n_group"])
        writer.add_expert_group_used_count(config["topk_group"])
    if "index_topk" in config:
        writer.add_indexer_head_count(config["index_n_heads"])
        writer.add_indexer_key_length(config["index_head_dim"])
        writer.add_indexer_top_k(config["index_topk"])
        writer.add_array(f"{writer.arch}.attention.indexer.types", [kind == "full" for kind in config["indexer_types"]])


def split_up_projection(layer: str, values: Array, config: dict[str, Any]) -> Iterator[tuple[str, Array]]:
    """The rows that make keys, transposed for each head, and those that make values."""
    heads = values.reshape(config["num_attention_heads"], -1, values.shape[1])
    keys, made = np.split(heads, [config["qk_nope_head_dim"]], axis=1)
    yield f"blk.{layer}.attn_k_b.weight", np.ascontiguousarray(keys.swapaxes(1, 2))
    yield f"blk.{layer}.attn_v_b.weight", np.ascontiguousarray(made)


def _permuted(values: Array, heads: int) -> Array:
    """The rows of a head from two halves to interleaved pairs."""
    rows = values.reshape(heads, 2, values.shape[0] // heads // 2, *values.shape[1:])
    return rows.swapaxes(1, 2).reshape(values.shape)


def _llama3_factors(config: dict[str, Any]) -> Array:
    rope, size = config["rope_parameters"], config["head_dim"]
    low, high, factor = rope["low_freq_factor"], rope["high_freq_factor"], rope["factor"]
    factors = []
    for index in range(0, size, 2):
        wavelength = 2 * math.pi * rope["rope_theta"] ** (index / size)
        turns = rope["original_max_position_embeddings"] / wavelength
        smooth = (turns - low) / (high - low)
        factors.append(1.0 if turns > high else factor if turns < low else 1 / ((1 - smooth) / factor + smooth))
    return np.array(factors, np.float32)
