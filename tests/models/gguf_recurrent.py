"""GGUF files of families with recurrent layers, from small Hugging Face checkpoints.

Facts: llama.cpp ``conversion/qwen.py`` and ``conversion/kimi_linear.py``. Tensor names are those of the ``gguf``
package.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import numpy.typing as npt
from gguf.quants import quantize
from safetensors.numpy import load_file

from .gguf_writer import split_up_projection, stacked_experts

Q8_0 = gguf.GGMLQuantizationType.Q8_0
Array = npt.NDArray[np.float32]


def write_qwen35(
    path: Path, checkpoint: Path, architecture: str, *, quantized: bool = False, prediction: bool = False
) -> Path:
    """Write ``path`` from the directory ``checkpoint``.

    Args:
        architecture: ``qwen35`` or ``qwen35moe``.
        quantized: projections as Q8_0, else all as F32.
        prediction: add a block for multi-token prediction.
    """
    config = json.loads((checkpoint / "config.json").read_text())["text_config"]
    writer = gguf.GGUFWriter(path, architecture)
    _common(writer, config)
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_key_length(config["head_dim"])
    writer.add_value_length(config["head_dim"])
    writer.add_rope_freq_base(config["rope_parameters"]["rope_theta"])
    writer.add_rope_dimension_count(int(config["head_dim"] * config["rope_parameters"]["partial_rotary_factor"]))
    writer.add_ssm_conv_kernel(config["linear_conv_kernel_dim"])
    writer.add_ssm_state_size(config["linear_key_head_dim"])
    writer.add_ssm_group_count(config["linear_num_key_heads"])
    writer.add_ssm_time_step_rank(config["linear_num_value_heads"])
    writer.add_ssm_inner_size(config["linear_value_head_dim"] * config["linear_num_value_heads"])
    writer.add_full_attention_interval(4)
    if architecture == "qwen35moe":
        writer.add_expert_count(config["num_experts"])
        writer.add_expert_used_count(config["num_experts_per_tok"])
        writer.add_expert_feed_forward_length(config["moe_intermediate_size"])
        writer.add_expert_shared_feed_forward_length(config["shared_expert_intermediate_size"])
    else:
        writer.add_feed_forward_length(config["intermediate_size"])
    layers = config["num_hidden_layers"]
    writer.add_block_count(layers + prediction)
    if prediction:
        writer.add_nextn_predict_layers(1)
        for name in ("attn_norm.weight", "attn_q.weight", "nextn.eh_proj.weight"):
            writer.add_tensor(f"blk.{layers}.{name}", np.ones((4, 4), np.float32))
    names = _names(architecture, layers)
    for name, values in _qwen35_tensors(checkpoint, config):
        if quantized and values.shape[-1] % 32 == 0 and "proj" in name:
            writer.add_tensor(_stored(names, name), quantize(values, Q8_0), raw_dtype=Q8_0)
        else:
            writer.add_tensor(_stored(names, name), values)
    return _finish(writer, path)


def _common(writer: gguf.GGUFWriter, config: dict[str, Any]) -> None:
    writer.add_context_length(256)
    writer.add_embedding_length(config["hidden_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])


def _finish(writer: gguf.GGUFWriter, path: Path) -> Path:
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _names(architecture: str, layers: int) -> gguf.TensorNameMap:
    kind = next(key for key, name in gguf.MODEL_ARCH_NAMES.items() if name == architecture)
    return gguf.get_tensor_name_map(kind, layers)


def _stored(names: gguf.TensorNameMap, name: str) -> str:
    stored = names.get_name(name, try_suffixes=(".weight", ".bias"))
    assert stored is not None, name
    return str(stored)


def _qwen35_tensors(checkpoint: Path, config: dict[str, Any]) -> Iterator[tuple[str, Array]]:
    for given, values in stacked_experts(load_file(checkpoint / "model.safetensors")):
        if "visual" in given:
            continue
        name = given.replace("model.language_model.", "model.")
        if name.endswith("conv1d.weight"):
            values = values[:, 0]
        if ".linear_attn." in name:
            values = _tiled(name, values, config)
        if name.endswith(".A_log"):
            values = -np.exp(values)
        elif name.endswith(".dt_bias"):
            name = name.replace(".dt_bias", ".dt_proj.bias")
        elif name.endswith("norm.weight") and not name.endswith("linear_attn.norm.weight"):
            values = values + 1
        elif name.endswith("shared_expert_gate.weight"):
            values = values[0]
        yield name, np.ascontiguousarray(values, np.float32)


def _tiled(name: str, values: Array, config: dict[str, Any]) -> Array:
    """Value heads from groups that share a key head to rounds over the key heads."""
    shared, heads = config["linear_num_key_heads"], config["linear_num_value_heads"]
    order = np.arange(heads).reshape(shared, -1).T.ravel()
    size = config["linear_value_head_dim"]
    rows = (order[:, None] * size + np.arange(size)).ravel()
    keys = np.arange(2 * shared * config["linear_key_head_dim"])
    part = name.split(".linear_attn.")[1].split(".")[0]
    if part in ("in_proj_qkv", "conv1d"):
        return values[np.concatenate([keys, len(keys) + rows])]
    if part == "out_proj":
        return values[:, rows]
    if part == "norm":
        return values
    return values[rows if part == "in_proj_z" else order]


def write_kimi(path: Path, checkpoint: Path, *, split: bool) -> Path:
    """Write ``path`` from the directory ``checkpoint``, all as F32.

    Args:
        split: the up-projection of latents in two tensors, as converters have done since late 2025.
    """
    config = json.loads((checkpoint / "config.json").read_text())
    writer = gguf.GGUFWriter(path, "kimi-linear")
    _common(writer, config)
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    full = [kind == "full_attention" for kind in config["layer_types"]]
    writer.add_head_count_kv([int(latent) for latent in full])
    writer.add_ssm_conv_kernel(config["linear_conv_kernel_dim"])
    writer.add_kda_head_dim(config["linear_head_dim"])
    writer.add_kv_lora_rank(config["kv_lora_rank"])
    writer.add_rope_dimension_count(config["qk_rope_head_dim"])
    writer.add_key_length(config["kv_lora_rank"] + config["qk_rope_head_dim"])
    writer.add_key_length_mla(config["qk_nope_head_dim"] + config["qk_rope_head_dim"])
    writer.add_value_length_mla(config["v_head_dim"])
    writer.add_expert_count(config["num_experts"])
    writer.add_expert_used_count(config["num_experts_per_token"])
    writer.add_expert_feed_forward_length(config["moe_intermediate_size"])
    writer.add_expert_shared_count(config["num_shared_experts"])
    writer.add_leading_dense_block_count(config["mlp_layer_types"].count("dense"))
    writer.add_expert_weights_scale(config["routed_scaling_factor"])
    writer.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID)
    names = _names("kimi-linear", config["num_hidden_layers"])
    for name, values in stacked_experts(load_file(checkpoint / "model.safetensors")):
        if "kv_b_proj" in name and split:
            for stored, part in split_up_projection(name.split(".")[2], values, config):
                writer.add_tensor(stored, part)
        else:
            writer.add_tensor(*_kimi_tensor(names, name, values))
    return _finish(writer, path)


def _kimi_tensor(names: gguf.TensorNameMap, name: str, values: Array) -> tuple[str, Array]:
    if name.split(".")[4:5] in (["gate_proj"], ["up_proj"], ["down_proj"]):
        name = name.replace(".block_sparse_moe.", ".mlp.")
    if "conv1d" in name:
        values = values.reshape(1, len(values), 1, -1)
    if name.endswith(".A_log"):
        values = -np.exp(values)
    name = name.replace(".dt_bias", ".dt_proj.bias").replace("e_score_correction_bias", "e_score_correction.bias")
    return _stored(names, name), np.ascontiguousarray(values, np.float32)
