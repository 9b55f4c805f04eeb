"""Greedy tokens and log-probabilities against vLLM's (``make_vllm_goldens.py``), in float32."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from modelhost import LLM, SamplingParams
from modelhost.testing.transformers_reference import save_random

from .vllm_cases import CASES, PROMPT, TOKENS

GOLDENS = json.loads((Path(__file__).parent / "goldens" / "vllm.json").read_text())


@pytest.mark.parametrize("name", [name for name in GOLDENS if name != "vllm"])
def test_vllm_gives_the_same(name: str, tmp_path: Path) -> None:
    model_type, fields = CASES[name]
    llm = LLM(str(save_random(tmp_path / name, model_type, fields)), backend="reference")
    params = SamplingParams(temperature=0, max_tokens=TOKENS, ignore_eos=True, logprobs=0)
    answer = llm.generate(PROMPT, params)[0].outputs[0]
    assert answer.logprobs is not None
    assert answer.token_ids == GOLDENS[name]["token_ids"]
    ours = [place[token].logprob for place, token in zip(answer.logprobs, answer.token_ids, strict=True)]
    assert ours == pytest.approx(GOLDENS[name]["logprobs"], abs=1e-3)


def test_all_families_that_vllm_runs_have_goldens() -> None:
    assert set(GOLDENS) - {"vllm"} == set(CASES)
