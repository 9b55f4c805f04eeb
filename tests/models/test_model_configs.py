"""Configurations of the families: defaults, older forms of fields, and the exact text of errors."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
from safetensors.numpy import save_file

from modelhost.api import ConfigError
from modelhost.loading import ModelSource, open_model
from modelhost.plugins import boot

REGISTRY = boot()
SIZES: dict[str, Any] = {"vocab_size": 20, "hidden_size": 24, "intermediate_size": 32, "num_hidden_layers": 6}
SIZES |= {"num_attention_heads": 4, "num_key_value_heads": 2}


def open_hf(directory: Path, architecture: str, fields: Mapping[str, Any]) -> ModelSource:
    (directory / "config.json").write_text(json.dumps({"architectures": [architecture], **fields}))
    save_file({"model.norm.weight": np.zeros(24, np.float32)}, directory / "model.safetensors")
    return open_model(directory, REGISTRY)


def open_gguf(
    path: Path, architecture: str, keys: Mapping[str, Any], tensors: Mapping[str, Any] | None = None
) -> ModelSource:
    writer = gguf.GGUFWriter(path, architecture)
    for key, value in keys.items():
        if isinstance(value, list):
            writer.add_array(f"{architecture}.{key}", value)
        elif isinstance(value, str):
            writer.add_string(f"{architecture}.{key}", value)
        elif isinstance(value, float):
            writer.add_float32(f"{architecture}.{key}", value)
        else:
            writer.add_uint32(f"{architecture}.{key}", value)
    for name, values in {"token_embd.weight": np.zeros((20, 24), np.float32), **(tensors or {})}.items():
        writer.add_tensor(name, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return open_model(path, REGISTRY)


GGUF_SIZES: dict[str, Any] = {"embedding_length": 24, "feed_forward_length": 32, "block_count": 6}
GGUF_SIZES |= {"attention.head_count": 4, "attention.head_count_kv": 2, "context_length": 64}


def windows(source: ModelSource) -> list[int | None]:
    return [state.spec.window for _, state in source.model.named_states()]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, [None] * 6),
        ({"sliding_window": 8}, [None] * 6),
        ({"use_sliding_window": False, "sliding_window": 8, "max_window_layers": 2}, [None] * 6),
        ({"use_sliding_window": True, "sliding_window": 8, "max_window_layers": 2}, [None, None, 8, 8, 8, 8]),
        ({"use_sliding_window": True, "max_window_layers": 5}, [None, None, None, None, None, 4096]),
        ({"use_sliding_window": True, "sliding_window": None, "max_window_layers": 0}, [None] * 6),
        (
            {
                "use_sliding_window": True,
                "sliding_window": 8,
                "layer_types": ["sliding_attention", *["full_attention"] * 4, "sliding_attention"],
            },
            [8, None, None, None, None, 8],
        ),
    ],
)
@pytest.mark.parametrize("architecture", ["Qwen2ForCausalLM", "Qwen3ForCausalLM"])
def test_qwen_windows(tmp_path: Path, architecture: str, fields: dict[str, Any], expected: list[int | None]) -> None:
    assert windows(open_hf(tmp_path, architecture, SIZES | fields)) == expected


def test_qwen3_head_dim_is_128_when_left_out(tmp_path: Path) -> None:
    assert open_hf(tmp_path, "Qwen3ForCausalLM", SIZES).config.head_dim == 128


def test_llama_ignores_a_window(tmp_path: Path) -> None:
    assert windows(open_hf(tmp_path, "LlamaForCausalLM", SIZES | {"sliding_window": 8})) == [None] * 6


def test_mistral_has_the_window_in_every_layer(tmp_path: Path) -> None:
    assert windows(open_hf(tmp_path, "MistralForCausalLM", SIZES | {"sliding_window": 8})) == [8] * 6


def test_gemma_defaults(tmp_path: Path) -> None:
    config = open_hf(tmp_path, "GemmaForCausalLM", SIZES | {"hidden_act": "gelu"}).config
    assert (config.head_dim, config.tie_word_embeddings, config.hidden_act) == (256, True, "gelu_tanh")
    assert config.norm_offset == 1.0


def test_gemma2_defaults(tmp_path: Path) -> None:
    source = open_hf(tmp_path, "Gemma2ForCausalLM", SIZES | {"hidden_activation": None})
    config = source.config
    assert (config.attn_logit_softcapping, config.final_logit_softcapping) == (50.0, 30.0)
    assert (config.query_pre_attn_scalar, config.hidden_act) == (256, "gelu_tanh")
    assert windows(source) == [4096, None] * 3


def test_gemma2_caps_can_be_switched_off(tmp_path: Path) -> None:
    fields = SIZES | {"attn_logit_softcapping": None, "final_logit_softcapping": None}
    config = open_hf(tmp_path, "Gemma2ForCausalLM", fields).config
    assert (config.attn_logit_softcapping, config.final_logit_softcapping) == (None, None)


def test_gemma3_defaults(tmp_path: Path) -> None:
    source = open_hf(tmp_path, "Gemma3ForCausalLM", SIZES)
    assert windows(source) == [4096] * 5 + [None]
    assert source.config.rope_parameters.rope_theta == 1e6
    assert source.config.sliding_rope_parameters.rope_theta == 1e4
    assert source.config.final_logit_softcapping is None


def test_gemma3_older_fields(tmp_path: Path) -> None:
    fields = {"rope_theta": 7e5, "rope_local_base_freq": 800.0, "sliding_window": 8, "sliding_window_pattern": 2}
    scaling = {"rope_scaling": {"rope_type": "linear", "factor": 8.0}}
    source = open_hf(tmp_path, "Gemma3ForCausalLM", SIZES | fields | scaling)
    full, sliding = source.config.rope_parameters, source.config.sliding_rope_parameters
    assert (full.rope_type, full.factor, full.rope_theta) == ("linear", 8.0, 7e5)
    assert (sliding.rope_type, sliding.rope_theta) == ("default", 800.0)
    assert windows(source) == [8, None] * 3


def test_gemma3_nested_rope_parameters(tmp_path: Path) -> None:
    rope = {
        "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 7e5},
        "sliding_attention": {"rope_type": "default", "rope_theta": 800.0},
    }
    config = open_hf(tmp_path, "Gemma3ForCausalLM", SIZES | {"rope_parameters": rope}).config
    assert (config.rope_parameters.factor, config.rope_parameters.rope_theta) == (8.0, 7e5)
    assert config.sliding_rope_parameters.rope_theta == 800.0


@pytest.mark.parametrize(
    "fields",
    [
        {"rope_theta": 500.0, "rope_scaling": {"type": "linear", "factor": 2.0}},
        {"rope_parameters": {"rope_type": "linear", "factor": 2.0, "rope_theta": 500.0}},
        {"rope_theta": 500.0, "rope_parameters": {"rope_type": "linear", "factor": 2.0}},
    ],
)
def test_rope_fields_old_and_new(tmp_path: Path, fields: dict[str, Any]) -> None:
    rope = open_hf(tmp_path, "LlamaForCausalLM", SIZES | fields).config.rope_parameters
    assert (rope.rope_type, rope.factor, rope.rope_theta) == ("linear", 2.0, 500.0)


def test_null_fields_take_their_defaults(tmp_path: Path) -> None:
    nulls = {"head_dim": None, "rope_scaling": None, "mlp_bias": None, "num_key_value_heads": None}
    config = open_hf(tmp_path, "LlamaForCausalLM", SIZES | nulls).config
    assert (config.head_dim, config.num_key_value_heads, config.mlp_bias) == (6, 4, False)


@pytest.mark.parametrize(("layers", "scalar"), [(6, 8), (46, 6)])
def test_gguf_gemma2_query_scalar(tmp_path: Path, layers: int, scalar: int) -> None:
    keys = GGUF_SIZES | {"block_count": layers, "attention.key_length": 8, "attention.sliding_window": 5}
    source = open_gguf(tmp_path / "m.gguf", "gemma2", keys)
    assert source.config.query_pre_attn_scalar == scalar
    assert source.config.norm_offset == 0.0


@pytest.mark.parametrize(("layers", "scalar"), [(6, 8), (62, 6)])
def test_gguf_gemma3_query_scalar(tmp_path: Path, layers: int, scalar: int) -> None:
    keys = GGUF_SIZES | {"block_count": layers, "attention.key_length": 8, "attention.sliding_window": 5}
    assert open_gguf(tmp_path / "m.gguf", "gemma3", keys).config.query_pre_attn_scalar == scalar


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ({"attention.sliding_window": 5}, [5, 5, 5, 5, 5, None]),
        ({}, [None] * 6),
        ({"attention.sliding_window": 5, "attention.sliding_window_pattern": 3}, [5, 5, None, 5, 5, None]),
        (
            {
                "attention.sliding_window": 5,
                "attention.sliding_window_pattern": [True, False, False, True, True, False],
            },
            [5, None, None, 5, 5, None],
        ),
    ],
)
def test_gguf_gemma3_windows(tmp_path: Path, keys: dict[str, Any], expected: list[int | None]) -> None:
    assert windows(open_gguf(tmp_path / "m.gguf", "gemma3", GGUF_SIZES | keys)) == expected


def test_gguf_gemma3_bases(tmp_path: Path) -> None:
    config = open_gguf(tmp_path / "a.gguf", "gemma3", GGUF_SIZES).config
    assert (config.rope_parameters.rope_theta, config.sliding_rope_parameters.rope_theta) == (1e6, 1e4)
    keys = GGUF_SIZES | {"rope.freq_base": 5e5, "rope.freq_base_swa": 2e4}
    config = open_gguf(tmp_path / "b.gguf", "gemma3", keys).config
    assert (config.rope_parameters.rope_theta, config.sliding_rope_parameters.rope_theta) == (5e5, 2e4)


def test_gguf_yarn_factor_multiplies(tmp_path: Path) -> None:
    keys = GGUF_SIZES | {"rope.scaling.type": "yarn", "rope.scaling.factor": 4.0, "rope.scaling.attn_factor": 0.5}
    rope = open_gguf(tmp_path / "m.gguf", "llama", keys).config.rope_parameters
    assert rope.attention_factor == pytest.approx(0.5 * (1 + 0.1 * np.log(4)))


def test_gguf_longrope(tmp_path: Path) -> None:
    keys = GGUF_SIZES | {"rope.scaling.attn_factor": 1.25, "rope.scaling.original_context_length": 32}
    factors = {f"rope_factors_{kind}.weight": np.array([1, 2, 4], np.float32) for kind in ("long", "short")}
    rope = open_gguf(tmp_path / "m.gguf", "llama", keys, factors).config.rope_parameters
    assert (rope.rope_type, rope.attention_factor, rope.long_factor) == ("longrope", 1.25, (1.0, 2.0, 4.0))


def test_gguf_partial_rotation(tmp_path: Path) -> None:
    source = open_gguf(tmp_path / "m.gguf", "llama", GGUF_SIZES | {"rope.dimension_count": 4})
    assert source.config.rope_parameters.rotated(source.config.head_dim) == 4


WITHOUT_HIDDEN = {name: value for name, value in SIZES.items() if name != "hidden_size"}
TYPES = "'default', 'linear', 'dynamic', 'yarn', 'llama3' or 'longrope'"
ERRORS: list[tuple[str, dict[str, Any], str]] = [
    ("LlamaForCausalLM", WITHOUT_HIDDEN, "hidden_size: Field required"),
    (
        "LlamaForCausalLM",
        SIZES | {"hidden_size": "x"},
        "hidden_size: Input should be a valid integer, unable to parse string as an integer, got 'x'",
    ),
    ("LlamaForCausalLM", SIZES | {"hidden_size": 0}, "hidden_size: Input should be greater than 0, got 0"),
    (
        "LlamaForCausalLM",
        SIZES | {"hidden_act": "mish"},
        "hidden_act: Input should be 'silu', 'gelu', 'gelu_tanh', 'relu', 'sigmoid' or 'softplus', got 'mish'",
    ),
    (
        "LlamaForCausalLM",
        SIZES | {"rope_parameters": {"rope_type": "spiral"}},
        f"rope_parameters.rope_type: Input should be {TYPES}, got 'spiral'",
    ),
    (
        "LlamaForCausalLM",
        SIZES | {"rope_scaling": {"type": "spiral"}},
        f"rope_scaling.type: Input should be {TYPES}, got 'spiral'",
    ),
    ("LlamaForCausalLM", SIZES | {"rope_theta": -1.0}, "rope_theta: Input should be greater than 0, got -1.0"),
    (
        "LlamaForCausalLM",
        SIZES | {"rope_scaling": {"rope_type": "linear"}},
        "rope_scaling: rope_type 'linear' needs factor",
    ),
    (
        "LlamaForCausalLM",
        SIZES | {"rope_scaling": [1]},
        "rope_scaling: Input should be a valid dictionary or instance of RopeParameters, got [1]",
    ),
    (
        "LlamaForCausalLM",
        SIZES | {"num_attention_heads": 5, "num_key_value_heads": 5},
        "(model): hidden_size 24 is not a multiple of num_attention_heads 5, and head_dim is not given",
    ),
    (
        "LlamaForCausalLM",
        SIZES | {"num_key_value_heads": 3},
        "(model): num_attention_heads 4 is not a multiple of num_key_value_heads 3",
    ),
    (
        "LlamaForCausalLM",
        SIZES | {"head_dim": 7},
        "(model): head_dim 7 with partial_rotary_factor 1 rotates 7 dimensions; "
        "rope_type 'default' needs an even number of at least 2",
    ),
    (
        "LlamaForCausalLM",
        SIZES | {"rope_scaling": {"type": "longrope", "short_factor": [1.0], "long_factor": [1.0, 2.0, 3.0]}},
        "(model): short_factor has 1 values, one for each of 3 pairs is needed",
    ),
    (
        "Qwen2ForCausalLM",
        SIZES | {"layer_types": ["full_attention"]},
        "(model): layer_types has 1 entries, num_hidden_layers is 6",
    ),
    (
        "Qwen3ForCausalLM",
        SIZES | {"layer_types": ["sliding_attention"] * 6},
        "(model): layer_types has sliding_attention layers, but no sliding_window is in use",
    ),
    (
        "Gemma3ForCausalLM",
        SIZES | {"layer_types": [*["full_attention"] * 5, "linear_attention"]},
        "layer_types.5: Input should be 'full_attention' or 'sliding_attention', got 'linear_attention'",
    ),
    (
        "Gemma3ForCausalLM",
        SIZES | {"rope_parameters": {"sliding_attention": {"rope_type": "spiral"}}},
        f"rope_parameters.sliding_attention.rope_type: Input should be {TYPES}, got 'spiral'",
    ),
    (
        "Gemma3ForCausalLM",
        SIZES | {"rope_parameters": {"full_attention": {"rope_type": "linear"}}},
        "rope_parameters.full_attention: rope_type 'linear' needs factor",
    ),
    (
        "Gemma2ForCausalLM",
        SIZES | {"use_bidirectional_attention": True},
        "use_bidirectional_attention: Input should be False, got True",
    ),
]


@pytest.mark.parametrize(("architecture", "fields", "line"), ERRORS)
def test_config_error(tmp_path: Path, architecture: str, fields: dict[str, Any], line: str) -> None:
    with pytest.raises(ConfigError) as caught:
        open_hf(tmp_path, architecture, fields)
    head, *lines = str(caught.value).splitlines()
    kind = {"LlamaForCausalLM": "Decoder", "Qwen2ForCausalLM": "Qwen"}.get(
        architecture, architecture[: -len("ForCausalLM")]
    )
    assert head == f"{tmp_path / 'config.json'} does not describe a {kind} model:"
    assert lines == [f"  {line}"]


def test_all_problems_are_listed(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        open_hf(tmp_path, "LlamaForCausalLM", WITHOUT_HIDDEN | {"vocab_size": -2})
    assert str(caught.value) == (
        f"{tmp_path / 'config.json'} does not describe a Decoder model:\n"
        "  vocab_size: Input should be greater than 0, got -2\n"
        "  hidden_size: Field required"
    )


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"embedding_length": None}, "llama.embedding_length: Field required"),
        ({"attention.head_count": 0}, "llama.attention.head_count: Input should be greater than 0, got 0"),
        ({"rope.scaling.type": "spiral"}, f"llama.rope.scaling.type: Input should be {TYPES}, got 'spiral'"),
        ({"rope.scaling.type": "linear"}, "llama.rope: rope_type 'linear' needs factor"),
    ],
)
def test_gguf_error_names_the_key(tmp_path: Path, change: dict[str, Any], line: str) -> None:
    keys = {key: value for key, value in (GGUF_SIZES | change).items() if value is not None}
    keys["attention.key_length"] = 6
    path = tmp_path / "m.gguf"
    with pytest.raises(ConfigError) as caught:
        open_gguf(path, "llama", keys)
    assert str(caught.value).splitlines()[1:] == [f"  {line}"]
    assert str(caught.value).startswith(f"{path} does not describe a Decoder model:\n")
