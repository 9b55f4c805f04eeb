"""Configurations of Qwen3.5 and Kimi Linear: older forms of fields, what is set aside, and the exact text of errors."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from modelhost.api import ConfigError, WeightError
from modelhost.loading import ModelSource, open_model
from modelhost.plugins import boot
from modelhost.reference import ReferenceBackend
from modelhost.testing.tiny import GraphRunner
from modelhost.testing.transformers_reference import save_random

from .cases import CASES, HYBRID, KIMI

REGISTRY = boot()
DENSE, SPARSE = "Qwen3_5ForConditionalGeneration", "Qwen3_5MoeForConditionalGeneration"
LINEAR = "KimiLinearForCausalLM"
PROMPT = [3, 14, 15, 9, 26, 5, 35]


def open_fields(directory: Path, architecture: str, fields: Mapping[str, Any]) -> ModelSource:
    (directory / "config.json").write_text(json.dumps({"architectures": [architecture], **fields}))
    save_file({"model.norm.weight": np.zeros(24, np.float32)}, directory / "model.safetensors")
    return open_model(directory, REGISTRY)


def logits(path: Path) -> np.ndarray:
    return GraphRunner(open_model(path, REGISTRY), ReferenceBackend()).logits(PROMPT)


def checkpoint(directory: Path, name: str) -> Path:
    _, model_type, fields = CASES[name]
    return save_random(directory, model_type, fields)


def changed(directory: Path, change: Any) -> dict[str, np.ndarray]:
    """Change the tensors of a checkpoint; returns them as they were."""
    tensors = load_file(directory / "model.safetensors")
    save_file(change(dict(tensors)), directory / "model.safetensors")
    return tensors


def kinds(source: ModelSource) -> str:
    return "".join(source.config.layer_type(layer)[0] for layer in range(source.config.num_hidden_layers))


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, "lllf"),
        ({"full_attention_interval": 2}, "lflf"),
        ({"layer_types": ["full_attention", *["linear_attention"] * 3]}, "flll"),
    ],
)
def test_qwen35_layers(tmp_path: Path, fields: dict[str, Any], expected: str) -> None:
    assert kinds(open_fields(tmp_path, DENSE, {"text_config": HYBRID | fields})) == expected


def test_qwen35_defaults(tmp_path: Path) -> None:
    text = {key: value for key, value in HYBRID.items() if not key.startswith("linear") and key != "head_dim"}
    config = open_fields(tmp_path, DENSE, {"text_config": text}).config
    assert (config.head_dim, config.rope_parameters.partial_rotary_factor) == (256, 0.25)
    assert (config.linear_num_key_heads, config.linear_num_value_heads, config.linear_conv_kernel_dim) == (16, 32, 4)


@pytest.mark.parametrize(("outer", "inner", "tied"), [(None, True, True), (False, True, False), (True, False, True)])
def test_where_tied_embeddings_are_stated(tmp_path: Path, outer: bool | None, inner: bool, tied: bool) -> None:
    stated = {} if outer is None else {"tie_word_embeddings": outer}
    fields = {"text_config": HYBRID | {"tie_word_embeddings": inner}, **stated}
    assert open_fields(tmp_path, DENSE, fields).config.tie_word_embeddings is tied


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, "llll"),
        ({"num_hidden_layers": 6}, "llllfl"),
        ({"layer_types": ["full_attention", *["linear_attention"] * 3]}, "flll"),
        ({"linear_attn_config": {"full_attn_layers": [2, 4], "kda_layers": [1, 3]}}, "lflf"),
    ],
)
def test_kimi_layers(tmp_path: Path, fields: dict[str, Any], expected: str) -> None:
    assert kinds(open_fields(tmp_path, LINEAR, KIMI | fields)) == expected


def test_kimi_names_of_published_checkpoints(tmp_path: Path) -> None:
    published = {"num_experts": 6, "num_experts_per_token": 3, "num_shared_experts": 2, "moe_renormalize": False}
    published |= {"num_expert_group": 3, "topk_group": 2, "moe_router_activation_func": "sigmoid"}
    published |= {"model_max_length": 99}
    published |= {"linear_attn_config": {"head_dim": 5, "num_heads": 4, "short_conv_kernel_size": 3}}
    given = {key: value for key, value in KIMI.items() if "experts" not in key and key != "max_position_embeddings"}
    config = open_fields(tmp_path, LINEAR, given | published).config
    assert (config.n_routed_experts, config.num_experts_per_tok, config.n_shared_experts) == (6, 3, 2)
    assert (config.n_group, config.topk_group, config.norm_topk_prob) == (3, 2, False)
    assert config.max_position_embeddings == 99
    assert (config.linear_head_dim, config.linear_num_heads, config.linear_conv_kernel_dim) == (5, 4, 3)


def test_vision_and_prediction_are_set_aside(tmp_path: Path) -> None:
    path = checkpoint(tmp_path / "hf", "qwen3.5")
    before = logits(path)
    more = ("mtp.fc.weight", "mtp.layers.0.self_attn.q_proj.weight", "mtp.norm.weight")
    tensors = changed(path, lambda kept: kept | {name: np.ones((2, 3), np.float32) for name in more})
    assert any(name.startswith("model.visual.") for name in tensors)
    np.testing.assert_array_equal(logits(path), before)
    changed(path, lambda kept: kept | {"model.auditory.weight": np.ones(3, np.float32)})
    with pytest.raises(WeightError, match=r"1 unexpected\.\nunexpected:\n  model\.auditory\.weight of shape \(3,\)\n"):
        logits(path)


def test_a_checkpoint_of_the_text_part(tmp_path: Path) -> None:
    path = checkpoint(tmp_path / "hf", "qwen3.5")
    before = logits(path)
    changed(path, lambda kept: {n.replace("language_model.", ""): v for n, v in kept.items() if "visual" not in n})
    np.testing.assert_array_equal(logits(path), before)


def test_experts_in_one_tensor(tmp_path: Path) -> None:
    path = checkpoint(tmp_path / "hf", "qwen3.5-moe")
    before = logits(path)

    def fuse(tensors: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        for layer in range(4):
            prefix = f"model.language_model.layers.{layer}.mlp.experts."
            parts = [
                [tensors.pop(f"{prefix}{expert}.{kind}_proj.weight") for expert in range(5)]
                for kind in ("gate", "up", "down")
            ]
            gate, up, down = map(np.stack, parts)
            tensors |= {f"{prefix}gate_up_proj": np.concatenate([gate, up], 1), f"{prefix}down_proj": down}
        return tensors

    changed(path, fuse)
    np.testing.assert_array_equal(logits(path), before)


def test_a_missing_expert(tmp_path: Path) -> None:
    path = checkpoint(tmp_path / "hf", "kimi-linear")
    name = "model.layers.1.block_sparse_moe.experts.3.w3.weight"
    changed(path, lambda tensors: {key: value for key, value in tensors.items() if key != name})
    with pytest.raises(WeightError, match=rf"1 missing\.\nmissing:\n  {name} of shape \(11, 36\)\n"):
        logits(path)


def test_kimi_modules_as_transformers_names_them(tmp_path: Path) -> None:
    """One convolution for queries, keys and values, and a module of its own for the decay."""
    path = checkpoint(tmp_path / "hf", "kimi-linear")
    before = logits(path)

    def rename(tensors: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        for layer in (0, 2):
            prefix = f"model.layers.{layer}.self_attn."
            parts = [tensors.pop(f"{prefix}{kind}_conv1d.weight") for kind in "qkv"]
            tensors[f"{prefix}conv1d.weight"] = np.concatenate(parts)
            for name in ("A_log", "dt_bias", "f_a_proj.weight", "f_b_proj.weight"):
                tensors[f"{prefix}forget_gate.{name}"] = tensors.pop(prefix + name)
        return {
            key if ".experts." in key else key.replace("block_sparse_moe", "mlp"): value
            for key, value in tensors.items()
        }

    changed(path, rename)
    np.testing.assert_array_equal(logits(path), before)


def test_a_convolution_of_another_width(tmp_path: Path) -> None:
    path = checkpoint(tmp_path / "hf", "qwen3.5")
    name = "model.language_model.layers.0.linear_attn.conv1d.weight"
    changed(path, lambda tensors: tensors | {name: tensors[name][:, :, :3].copy()})
    with pytest.raises(WeightError) as error:
        logits(path)
    assert f"  {name}: wanted shape (82, 4), found (82, 1, 3)" in str(error.value).splitlines()


ERRORS: list[tuple[str, dict[str, Any], str]] = [
    (
        DENSE,
        {"text_config": HYBRID | {"linear_num_value_heads": 5}},
        "(model): linear_num_value_heads 5 is not a multiple of linear_num_key_heads 2",
    ),
    (
        DENSE,
        {"text_config": HYBRID | {"layer_types": ["linear_attention"] * 3}},
        "(model): layer_types has 3 entries, num_hidden_layers is 4",
    ),
    (
        DENSE,
        {"text_config": HYBRID | {"layer_types": [*["linear_attention"] * 3, "mamba"]}},
        "text_config.layer_types.3: Input should be 'linear_attention' or 'full_attention', got 'mamba'",
    ),
    (
        DENSE,
        {"text_config": HYBRID | {"linear_conv_kernel_dim": 0}},
        "text_config.linear_conv_kernel_dim: Input should be greater than 0, got 0",
    ),
    (
        DENSE,
        {"text_config": HYBRID | {"rope_parameters": {"rope_type": "spiral"}}},
        "text_config.rope_parameters.rope_type: Input should be 'default', 'linear', 'dynamic', 'yarn', 'llama3' or "
        "'longrope', got 'spiral'",
    ),
    (
        DENSE,
        {"text_config": {key: value for key, value in HYBRID.items() if key != "vocab_size"}},
        "text_config.vocab_size: Field required",
    ),
    (
        DENSE,
        {"text_config": HYBRID, "tie_word_embeddings": "perhaps"},
        "tie_word_embeddings: Input should be a valid boolean, unable to interpret input, got 'perhaps'",
    ),
    (
        SPARSE,
        {"text_config": HYBRID | {"num_experts": 4, "num_experts_per_tok": 5}},
        "(model): num_experts_per_tok 5 is more than num_experts 4",
    ),
    (
        LINEAR,
        KIMI | {"moe_router_activation_func": "softmax"},
        "moe_router_activation_func: Input should be 'sigmoid', got 'softmax'",
    ),
    (
        LINEAR,
        KIMI | {"num_expert_group": 2},
        "(model): n_routed_experts 5 is not a multiple of n_group 2",
    ),
    (
        LINEAR,
        KIMI | {"linear_attn_config": {"num_heads": -1}},
        "linear_attn_config.num_heads: Input should be greater than 0, got -1",
    ),
    (
        LINEAR,
        KIMI | {"layer_types": ["linear_attention"]},
        "(model): layer_types has 1 entries, num_hidden_layers is 4",
    ),
]


@pytest.mark.parametrize(("architecture", "fields", "line"), ERRORS)
def test_config_error(tmp_path: Path, architecture: str, fields: dict[str, Any], line: str) -> None:
    with pytest.raises(ConfigError) as caught:
        open_fields(tmp_path, architecture, fields)
    head, *lines = str(caught.value).splitlines()
    kind = {DENSE: "Qwen35", SPARSE: "Qwen35Moe", LINEAR: "KimiLinear"}[architecture]
    assert head == f"{tmp_path / 'config.json'} does not describe a {kind} model:"
    assert lines == [f"  {line}"]
