"""What a user gets who gives something wrong, through the Python entry point."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from modelhost import LLM, SamplingParams
from modelhost.api import CheckpointError, ConfigError, ModelHostError, PluginError, UnsupportedError, WeightError
from tests.tiny_model import write_tiny_model

HINT = "Check that the configuration and the weights belong together and that the model's plugin is current."


@pytest.fixture
def model(tmp_path) -> Path:
    return write_tiny_model(tmp_path / "model")


def refused(path: Path | str, kind: type[ModelHostError], **settings) -> str:
    with pytest.raises(kind) as error:
        LLM(str(path), backend="reference", **settings)
    return str(error.value)


def edit_config(model: Path, **fields) -> None:
    config = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps({**config, **fields}))


def edit_tensors(model: Path, edit) -> None:
    tensors = load_file(model / "model.safetensors")
    edit(tensors)
    save_file(tensors, model / "model.safetensors")


def test_a_path_that_does_not_exist():
    assert refused("no/such/model.gguf", CheckpointError) == (
        "no/such/model.gguf does not exist. Give a directory with config.json, a .gguf file, or a Hugging Face id such "
        "as org/name."
    )


def test_a_directory_without_a_configuration(tmp_path):
    (tmp_path / "notes.txt").write_text("hello")
    text = refused(tmp_path, CheckpointError)
    assert text.startswith(f"{tmp_path} has no config.json")


def test_a_configuration_that_is_not_json(model):
    (model / "config.json").write_text('{"hidden_size": 24,')
    text = refused(model, CheckpointError)
    assert text.startswith(f"{model / 'config.json'}")
    assert "line 1" in text


def test_an_architecture_whose_package_is_not_installed(model):
    edit_config(model, architectures=["OPTForCausalLM"])
    text = refused(model, PluginError)
    assert "OPTForCausalLM" in text
    assert "pip install modelhost-opt" in text


def test_an_architecture_that_nobody_knows(model):
    edit_config(model, architectures=["LlamaForCausalLMM"])
    text = refused(model, PluginError)
    assert "'LlamaForCausalLMM'" in text
    assert "LlamaForCausalLM" in text.replace("LlamaForCausalLMM", "")


def test_a_configuration_without_an_architecture(model):
    edit_config(model, architectures=[])
    assert refused(model, ConfigError).startswith(f"{model}: the field 'architectures' in config.json must name")


def test_a_field_that_is_wrong(model):
    edit_config(model, num_key_value_heads=3)
    text = refused(model, ConfigError)
    assert text.startswith(f"{model / 'config.json'} does not describe a Decoder model:\n")
    assert "num_attention_heads 4 is not a multiple of num_key_value_heads 3" in text


def test_a_kind_of_rotary_embedding_that_nobody_knows(model):
    edit_config(model, rope_scaling={"rope_type": "spiral", "factor": 2.0})
    text = refused(model, ConfigError)
    assert "rope_scaling.rope_type" in text
    assert "'spiral'" in text


def test_tensors_that_are_missing_unexpected_or_of_another_shape(model):
    def edit(tensors):
        del tensors["model.norm.weight"]
        tensors["model.extra.weight"] = np.zeros((2, 3), np.float32)
        tensors["lm_head.weight"] = np.zeros((5, 24), np.float32)

    edit_tensors(model, edit)
    assert refused(model, WeightError) == (
        f"{model}: the tensors do not fit the model: 1 missing, 1 unexpected, 1 wrongly shaped.\n"
        "missing:\n  model.norm.weight of shape (24,)\n"
        "unexpected:\n  model.extra.weight of shape (2, 3)\n"
        f"wrongly shaped:\n  lm_head.weight: wanted shape (260, 24), found (5, 24)\n{HINT}"
    )


def test_a_truncated_file(model):
    path = model / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-100])
    text = refused(model, CheckpointError)
    assert text.startswith(f"{path}")


def test_a_file_that_is_not_a_checkpoint(tmp_path):
    path = tmp_path / "model.gguf"
    path.write_bytes(b"PK\x03\x04" + bytes(100))
    assert refused(path, CheckpointError).startswith(f"{path}")


def test_a_gguf_file_that_promises_too_much(tmp_path):
    path = tmp_path / "model.gguf"
    path.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 1 << 60, 1 << 60))
    assert refused(path, CheckpointError).startswith(f"{path}")


def test_an_encoding_that_nobody_reads(model):
    path = model / "model.safetensors"
    data = path.read_bytes()
    path.write_bytes(data.replace(b'"dtype":"F32"', b'"dtype":"F99"', 1))
    text = refused(model, UnsupportedError)
    assert "'F99'" in text


def test_a_backend_that_is_not_installed(model):
    with pytest.raises(PluginError) as error:
        LLM(str(model), backend="vulkan")
    assert "'vulkan'" in str(error.value)
    assert "pip install modelhost-vulkan" in str(error.value)


def test_a_dtype_that_the_backend_lacks(model):
    text = refused(model, UnsupportedError, dtype="bfloat16")
    assert "'reference' (modelhost 0.1.0) was asked for and cannot be used: computes in float32" in text


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("temperature", -1, "temperature must be"),
        ("top_p", 0, "top_p must be"),
        ("top_p", 1.5, "top_p must be"),
        ("top_k", -2, "top_k must be"),
        ("min_p", 2, "min_p must be"),
        ("max_tokens", 0, "max_tokens must be"),
        ("n", 0, "n must be"),
        ("repetition_penalty", 0, "repetition_penalty must be"),
        ("seed", "a", "seed must be"),
    ],
)
def test_sampling_parameters_that_are_not_allowed(field, value, message):
    with pytest.raises(ModelHostError) as error:
        SamplingParams(**{field: value})
    assert str(error.value).startswith(message)
    assert repr(value) in str(error.value)
