"""Configurations and checkpoints of models with experts and latent attention that are refused, and why."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from modelhost_deepseek.deepseek import DeepseekV2Config, DeepseekV3Config, DeepseekV32Config
from modelhost_glm.glm_moe import Glm4MoeLiteConfig, GlmMoeDsaConfig
from modelhost_qwen.qwen3_moe import Qwen3MoeConfig
from safetensors.numpy import load_file, save_file

from modelhost.api import ConfigError, WeightError
from modelhost.loading import open_model
from modelhost.plugins import boot
from modelhost.testing.transformers_reference import save_random

from .cases import CASES

CONFIGS: dict[str, Any] = {
    "qwen3-moe": Qwen3MoeConfig,
    "deepseek-v2-grouped-yarn": DeepseekV2Config,
    "deepseek-v3-grouped-yarn": DeepseekV3Config,
    "deepseek-v3.2": DeepseekV32Config,
    "glm4-moe-lite": Glm4MoeLiteConfig,
    "glm-moe-dsa": GlmMoeDsaConfig,
}


class Given:
    """A checkpoint of which only the configuration is looked at."""

    architecture = "any"

    def __init__(self, config: dict[str, Any]) -> None:
        self.config = config


def parse(name: str, **changes: Any) -> Any:
    fields = {key: value for key, value in (CASES[name][2] | changes).items() if value is not ...}
    return CONFIGS[name].from_huggingface(Given(fields), "config.json")


REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("qwen3-moe", {"num_experts": 2}, "(model): num_experts_per_tok 3 is more than num_experts 2"),
    ("qwen3-moe", {"num_experts": 0}, "num_experts: Input should be greater than 0, got 0"),
    ("qwen3-moe", {"moe_intermediate_size": ...}, "moe_intermediate_size: Field required"),
    ("qwen3-moe", {"mlp_only_layers": [-1]}, "mlp_only_layers.0: Input should be greater than or equal to 0, got -1"),
    ("deepseek-v3-grouped-yarn", {"n_group": 5}, "(model): n_routed_experts 12 is not a multiple of n_group 5"),
    ("deepseek-v3-grouped-yarn", {"topk_group": 9}, "(model): topk_group 9 is more than n_group 4"),
    (
        "deepseek-v3-grouped-yarn",
        {"num_experts_per_tok": 7},
        "(model): num_experts_per_tok 7 is more than the 6 experts that can be chosen of",
    ),
    (
        "deepseek-v3-grouped-yarn",
        {"scoring_func": "tanh"},
        "scoring_func: Input should be 'softmax' or 'sigmoid', got 'tanh'",
    ),
    (
        "deepseek-v3-grouped-yarn",
        {"topk_method": "random"},
        "topk_method: Input should be 'greedy', 'group_limited_greedy' or 'noaux_tc', got 'random'",
    ),
    ("deepseek-v3-grouped-yarn", {"kv_lora_rank": ...}, "kv_lora_rank: Field required"),
    ("deepseek-v3-grouped-yarn", {"qk_rope_head_dim": ...}, "qk_rope_head_dim: Field required"),
    ("deepseek-v3-grouped-yarn", {"moe_layer_freq": 2}, "moe_layer_freq: Input should be 1, got 2"),
    ("deepseek-v2-grouped-yarn", {"scoring_func": "sigmoid"}, "scoring_func: Input should be 'softmax', got 'sigmoid'"),
    ("deepseek-v2-grouped-yarn", {"norm_topk_prob": True}, "norm_topk_prob: Input should be False, got True"),
    (
        "deepseek-v2-grouped-yarn",
        {"topk_method": "noaux_tc"},
        "topk_method: Input should be 'greedy' or 'group_limited_greedy', got 'noaux_tc'",
    ),
    ("deepseek-v3.2", {"q_lora_rank": None}, "q_lora_rank: Input should be a valid integer, got None"),
    (
        "deepseek-v3.2",
        {"index_head_dim": 4},
        "(model): index_head_dim 4 is less than qk_rope_head_dim 6, which is rotated",
    ),
    ("deepseek-v3.2", {"rope_interleave": False}, "rope_interleave: Input should be True, got False"),
    (
        "glm4-moe-lite",
        {"mlp_layer_types": ["dense"]},
        "(model): mlp_layer_types has 1 entries, num_hidden_layers is 3",
    ),
    (
        "glm4-moe-lite",
        {"mlp_layer_types": ["dense", "hash", "sparse"]},
        "mlp_layer_types.1: Input should be 'dense' or 'sparse', got 'hash'",
    ),
    (
        "glm-moe-dsa",
        {"indexer_types": ["shared", "full", "full"]},
        "(model): indexer_types starts with 'shared', but no layer before it has an indexer",
    ),
    ("glm-moe-dsa", {"indexer_types": ["full"]}, "(model): indexer_types has 1 entries, num_hidden_layers is 3"),
    (
        "glm-moe-dsa",
        {"index_topk_pattern": "FXS"},
        "indexer_types.1: Input should be 'full' or 'shared', got 'X'",
    ),
    (
        "glm-moe-dsa",
        {"rope_parameters": {"rope_type": "spiral"}},
        "rope_parameters.rope_type: Input should be 'default', 'linear', 'dynamic', 'yarn', 'llama3' or 'longrope', "
        "got 'spiral'",
    ),
]


@pytest.mark.parametrize(("name", "changes", "line"), REFUSED)
def test_refused(name: str, changes: dict[str, Any], line: str) -> None:
    with pytest.raises(ConfigError) as error:
        parse(name, **changes)
    kind = CONFIGS[name].__name__.removesuffix("Config")
    assert str(error.value) == f"config.json does not describe a {kind} model:\n  {line}"


def test_layers_with_experts() -> None:
    config = parse("qwen3-moe", num_hidden_layers=6, decoder_sparse_step=2, mlp_only_layers=[3])
    assert [config.is_sparse(layer) for layer in range(6)] == [False, True, False, False, False, True]
    config = parse("deepseek-v3-grouped-yarn", first_k_dense_replace=2)
    assert [config.is_sparse(layer) for layer in range(3)] == [False, False, True]


@pytest.mark.parametrize(
    "fields",
    [{}, {"index_topk_pattern": "FSFSS"}, {"index_topk_freq": 2}, {"index_topk_freq": 3, "index_skip_topk_offset": 1}],
)
def test_indexers_of_older_files_are_those_of_transformers(fields: dict[str, Any]) -> None:
    from transformers import GlmMoeDsaConfig as Reference

    wanted = Reference(num_hidden_layers=5, **fields).indexer_types
    assert list(parse("glm-moe-dsa", num_hidden_layers=5, **fields).indexer_types) == wanted
    assert ("shared" in wanted) == bool(fields)


def test_other_names_of_the_number_of_experts() -> None:
    assert parse("deepseek-v3-grouped-yarn", n_routed_experts=..., num_local_experts=8).n_routed_experts == 8
    assert parse("qwen3-moe", num_experts=..., num_local_experts=8).num_experts == 8


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    _, model_type, fields = CASES["deepseek-v3"]
    return save_random(tmp_path_factory.mktemp("experts") / "v3", model_type, fields)


def changed(tmp_path: Path, checkpoint: Path, change: Any) -> Path:
    tensors = load_file(checkpoint / "model.safetensors")
    change(tensors)
    save_file(tensors, tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text((checkpoint / "config.json").read_text())
    return tmp_path


def test_missing_experts_are_named(tmp_path: Path, checkpoint: Path) -> None:
    names = [f"model.layers.{layer}.mlp.experts.{expert}.up_proj.weight" for layer, expert in ((1, 4), (2, 0))]

    def change(tensors: dict[str, Any]) -> None:
        for name in names:
            del tensors[name]

    path = changed(tmp_path, checkpoint, change)
    with pytest.raises(WeightError) as error:
        open_model(path, boot()).verify()
    lines = str(error.value).splitlines()
    assert lines[0] == f"{path}: the tensors do not fit the model: 2 missing."
    assert lines[2:4] == [f"  {name} of shape (14, 36)" for name in names]


def test_an_expert_of_another_size_is_named(tmp_path: Path, checkpoint: Path) -> None:
    name = "model.layers.1.mlp.experts.3.down_proj.weight"

    def change(tensors: dict[str, Any]) -> None:
        tensors[name] = tensors[name][:, :13].copy()

    path = changed(tmp_path, checkpoint, change)
    with pytest.raises(WeightError, match=r"down_proj.weight: wanted shape \(36, 14\), found \(36, 13\)"):
        open_model(path, boot()).verify()


def test_stacked_and_fused_experts_are_read_as_well(tmp_path: Path, checkpoint: Path) -> None:
    import numpy as np

    def change(tensors: dict[str, Any]) -> None:
        for layer in (1, 2):
            prefix = f"model.layers.{layer}.mlp.experts"
            each = {
                kind: np.stack([tensors.pop(f"{prefix}.{expert}.{kind}.weight") for expert in range(9)])
                for kind in ("gate_proj", "up_proj", "down_proj")
            }
            tensors[f"{prefix}.gate_up_proj"] = np.concatenate([each["gate_proj"], each["up_proj"]], axis=1)
            tensors[f"{prefix}.down_proj"] = each["down_proj"]

    fused = open_model(changed(tmp_path, checkpoint, change), boot()).weights()
    apart = open_model(checkpoint, boot()).weights()
    assert fused.keys() == apart.keys()
    for name, weight in apart.items():
        np.testing.assert_array_equal(fused[name].dequantize(), weight.dequantize())


def test_layers_for_predicting_more_tokens_are_set_aside(tmp_path: Path, checkpoint: Path) -> None:
    def change(tensors: dict[str, Any]) -> None:
        tensors["model.layers.3.enorm.weight"] = tensors["model.norm.weight"].copy()

    path = changed(tmp_path, checkpoint, change)
    assert json.loads((path / "config.json").read_text())["num_hidden_layers"] == 3
    open_model(path, boot()).verify()
