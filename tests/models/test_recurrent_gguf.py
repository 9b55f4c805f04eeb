"""GGUF files of families with recurrent layers against transformers running the checkpoint with the same values."""

from __future__ import annotations

from pathlib import Path

import pytest

from modelhost.testing.architecture import ArchitectureCase
from modelhost.testing.transformers_reference import TransformersReference, save_random

from .cases import CASES, HYBRID, sections, with_vision
from .gguf_recurrent import write_kimi, write_qwen35
from .gguf_writer import dequantized

PROMPTS = [[3], [5, 60, 2, 9, 31, 31, 8, 44, 1, 17, 23, 6, 52, 50, 11, 29, 35, 4, 20]]


def run(architecture: str, file: Path, reference: Path) -> None:
    case = ArchitectureCase(
        architecture,
        checkpoint=file,
        reference=lambda _: TransformersReference(reference),
        prompts=PROMPTS,
        generated=24,
    )
    for check in ("weights", "prefill", "decode", "greedy"):
        case.run(check)


@pytest.mark.parametrize("prediction", [False, True])
@pytest.mark.parametrize(("name", "gguf"), [("qwen3.5", "qwen35"), ("qwen3.5-moe", "qwen35moe")])
def test_qwen35(name: str, gguf: str, prediction: bool, tmp_path: Path) -> None:
    architecture, model_type, fields = CASES[name]
    checkpoint = save_random(tmp_path / "hf", model_type, fields)
    run(architecture, write_qwen35(tmp_path / "model.gguf", checkpoint, gguf, prediction=prediction), checkpoint)


def test_qwen35_quantized(tmp_path: Path) -> None:
    """Sizes that blocks fit into, so that every projection is quantised; the heads stay where the file has them."""
    text = HYBRID | sections(16, 0.5, 2, 1, 1) | {"hidden_size": 64, "intermediate_size": 96}
    text |= {"linear_key_head_dim": 32, "linear_value_head_dim": 32, "linear_num_key_heads": 2}
    text |= {"linear_num_value_heads": 4, "vocab_size": 71}
    checkpoint = save_random(tmp_path / "hf", "qwen3_5", with_vision(text))
    file = write_qwen35(tmp_path / "model.gguf", checkpoint, "qwen35", quantized=True)
    rounded = dequantized(tmp_path / "rounded", checkpoint, only="proj")
    run("Qwen3_5ForConditionalGeneration", file, rounded)


@pytest.mark.parametrize("split", [False, True])
def test_kimi(split: bool, tmp_path: Path) -> None:
    """llama.cpp knows one number of heads only, for both kinds of layers, and always renormalises."""
    architecture, model_type, fields = CASES["kimi-linear"]
    checkpoint = save_random(tmp_path / "hf", model_type, fields | {"linear_num_heads": fields["num_attention_heads"]})
    run(architecture, write_kimi(tmp_path / "model.gguf", checkpoint, split=split), checkpoint)
