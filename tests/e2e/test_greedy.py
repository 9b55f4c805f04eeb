"""Greedy output of the real checkpoints against goldens that transformers made in float32 (``make_goldens.py``)."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from modelhost import LLM, SamplingParams

CHECKPOINTS = ("smollm2", "gemma3", "qwen2.5-coder")
NEAR_TIE = 0.5
"""Natural logarithms by which our token may be below the reference's best where the two first differ."""


@cache
def golden(name: str) -> list[dict[str, Any]]:
    return json.loads((Path(__file__).parent / "goldens" / f"{name}.json").read_text())["cases"]


def generate(
    path: Path, prompts: list[list[int]], tokens: int, dtype: str = "float32", **settings: Any
) -> list[list[int]]:
    llm = LLM(str(path), dtype=dtype, max_model_len=128, max_num_seqs=8, **settings)
    params = SamplingParams(temperature=0, max_tokens=tokens, ignore_eos=True, detokenize=False)
    return [output.outputs[0].token_ids for output in llm.generate(prompts, params)]


def first_difference(ours: list[int], case: dict[str, Any]) -> tuple[int, float] | None:
    """Place of the first token that differs, and how far ours is below the reference's best there."""
    for place, (token, expected) in enumerate(zip(ours, case["token_ids"], strict=False)):
        if token != expected:
            best = dict(map(tuple, case["best"][place]))
            return place, best[expected] - best.get(token, float("-inf"))
    return None


def check(name: str, ours: list[list[int]], cases: list[dict[str, Any]]) -> None:
    for tokens, case in zip(ours, cases, strict=True):
        difference = first_difference(tokens, case)
        if difference is not None:
            place, gap = difference
            print(f"{name}: {case['prompt']!r} differs at token {place} by {gap:.4f} nat")
            assert gap < NEAR_TIE, f"{case['prompt']!r}: token {place} is {gap:.4f} nat below the reference's best"


@pytest.mark.parametrize("name", CHECKPOINTS)
def test_torch_equals_transformers(name, checkpoint_file):
    cases = golden(name)
    ours = generate(checkpoint_file(name), [case["prompt_token_ids"] for case in cases], 48, backend="torch")
    check(name, ours, cases)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("name", CHECKPOINTS)
def test_cpu_equals_transformers(name, dtype, checkpoint_file):
    cases = golden(name)
    prompts = [case["prompt_token_ids"] for case in cases]
    check(name, generate(checkpoint_file(name), prompts, 48, dtype, backend="cpu"), cases)


def test_reference_equals_transformers(checkpoint_file):
    cases = golden("smollm2")[:2]
    prompts = [case["prompt_token_ids"] for case in cases]
    check("smollm2", generate(checkpoint_file("smollm2"), prompts, 12, backend="reference"), cases)


@pytest.mark.slow
@pytest.mark.parametrize("name", CHECKPOINTS)
def test_reference_equals_transformers_on_all_prompts(name, checkpoint_file):
    cases = golden(name)
    ours = generate(checkpoint_file(name), [case["prompt_token_ids"] for case in cases], 48, backend="reference")
    check(name, ours, cases)


@pytest.mark.parametrize("name", CHECKPOINTS)
def test_goldens_are_whole(name):
    cases = golden(name)
    assert len(cases) == 8
    assert all(len(case["token_ids"]) == len(case["best"]) == 48 for case in cases)
    for case in cases:
        assert [best[0][0] for best in case["best"]] == case["token_ids"]
