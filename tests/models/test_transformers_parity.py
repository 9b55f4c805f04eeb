"""Every architecture against transformers, on the reference backend and on the torch backend."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest

from modelhost.api.backend import KernelBackend
from modelhost.reference import ReferenceBackend
from modelhost.testing.architecture import ArchitectureCase
from modelhost.testing.transformers_reference import TransformersReference, save_random

from .cases import CASES

PROMPT_LENGTHS = (1, 7, 13, 22)
"""Below and above the windows and the original lengths of the cases."""
ARCHITECTURES = (
    "LlamaForCausalLM",
    "MistralForCausalLM",
    "Qwen2ForCausalLM",
    "Qwen3ForCausalLM",
    "GemmaForCausalLM",
    "Gemma2ForCausalLM",
    "Gemma3ForCausalLM",
    "KimiLinearForCausalLM",
    "Qwen3_5ForConditionalGeneration",
    "Qwen3_5MoeForConditionalGeneration",
    "Qwen3MoeForCausalLM",
    "DeepseekV2ForCausalLM",
    "DeepseekV3ForCausalLM",
    "DeepseekV32ForCausalLM",
    "DeepseekV4ForCausalLM",
    "Glm4ForCausalLM",
    "Glm4MoeLiteForCausalLM",
    "GlmMoeDsaForCausalLM",
)


def _torch_backend() -> KernelBackend:
    from modelhost_torch.backend import TorchBackend

    return TorchBackend(device="cpu", dtype="float32")


@cache
def _directory() -> TemporaryDirectory[str]:
    return TemporaryDirectory(prefix="modelhost-parity-")


@cache
def _checkpoint(name: str) -> Path:
    _, model_type, fields = CASES[name]
    return save_random(Path(_directory().name) / name, model_type, fields)


@cache
def _reference(checkpoint: Path) -> TransformersReference:
    return TransformersReference(checkpoint)


def _checks(name: str, backend: str) -> Iterator[Any]:
    architecture, _, fields = CASES[name]
    rng = np.random.default_rng(7)
    vocabulary = fields.get("text_config", fields)["vocab_size"]
    case = ArchitectureCase(
        architecture,
        checkpoint=partial(_checkpoint, name),
        reference=_reference,
        backend=_torch_backend if backend == "torch" else ReferenceBackend,
        prompts=[rng.integers(0, vocabulary, length).tolist() for length in PROMPT_LENGTHS],
    )
    for check in case.checks():
        yield pytest.param(check.values[0], id=f"{name}-{backend}-{check.id}", marks=check.marks)


@pytest.mark.parametrize("check", [p for name in CASES for b in ("reference", "torch") for p in _checks(name, b)])
def test_parity(check: Callable[[], None]) -> None:
    check()


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_every_architecture_has_at_least_two_cases(architecture: str) -> None:
    assert sum(case[0] == architecture for case in CASES.values()) >= 2
