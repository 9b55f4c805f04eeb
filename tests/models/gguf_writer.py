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


def dequantized(directory: Path, checkpoint: Path) -> Path:
    """A copy of ``checkpoint`` whose matrices hold the values that Q8_0 leaves of them."""
    directory.mkdir()
    tensors = load_file(checkpoint / "model.safetensors")
    rounded = {n: dequantize(quantize(v, Q8_0), Q8_0) if v.ndim > 1 else v for n, v in tensors.items()}
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
    for name, values in load_file(checkpoint / "model.safetensors").items():
        if architecture == "llama" and "q_proj" in name:
            values = _permuted(values, config["num_attention_heads"])
        elif architecture == "llama" and "k_proj" in name:
            values = _permuted(values, config["num_key_value_heads"])
        elif architecture.startswith("gemma") and name.endswith("norm.weight"):
            values = values + 1
        stored = names.get_name(name, try_suffixes=(".weight", ".bias"))
        assert stored is not None, name
        yield stored, np.ascontiguousarray(values, np.float32)
    if architecture == "llama" and config["rope_parameters"]["rope_type"] == "llama3":
        yield "rope_freqs.weight", _llama3_factors(config)


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
