"""Whole models in the engine, on the reference backend: what else goes on changes no bit of an answer.

The answers are compared with all log-probabilities that the engine gives.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest

from modelhost import LLM, SamplingParams
from modelhost.testing.transformers_reference import save_random

from .cases import CASES

MODELS = (
    "qwen3",
    "qwen3.5",
    "qwen3.5-moe-tied",
    "kimi-linear",
    "deepseek-v4",
    "qwen3-moe",
    "deepseek-v2",
    "deepseek-v3-grouped-yarn",
    "deepseek-v3.2",
    "glm4",
    "glm4-moe-lite",
    "glm-moe-dsa-shared",
)
COUNT = 12
GREEDY = SamplingParams(temperature=0, max_tokens=COUNT, logprobs=20, ignore_eos=True)
Answer = tuple[list[int], Any]


@cache
def _directory() -> TemporaryDirectory[str]:
    return TemporaryDirectory(prefix="modelhost-engine-")


@cache
def _checkpoint(name: str) -> Path:
    _, model_type, fields = CASES[name]
    return save_random(Path(_directory().name) / name, model_type, fields)


def _llm(name: str, **settings: Any) -> LLM:
    memory = {} if "kv_cache_memory_bytes" in settings else {"memory_bytes": 64 << 20}
    return LLM(str(_checkpoint(name)), backend="reference", block_size=4, max_model_len=64, **memory, **settings)


def _prompts(name: str) -> list[list[int]]:
    fields = CASES[name][2]
    rng = np.random.default_rng(3)
    vocabulary = fields.get("text_config", fields)["vocab_size"]
    return [rng.integers(0, vocabulary, length).tolist() for length in (1, 4, 9, 16, 22, 31)]


def _answers(llm: LLM, prompts: list[list[int]]) -> list[Answer]:
    return [
        (output.outputs[0].token_ids, output.outputs[0].logprobs)
        for output in llm.generate([{"prompt_token_ids": prompt} for prompt in prompts], GREEDY)
    ]


@cache
def _alone(name: str) -> list[Answer]:
    """Every prompt in an engine of its own, at once."""
    return [_answers(_llm(name, enable_prefix_caching=False), [prompt])[0] for prompt in _prompts(name)]


def test_the_answers_are_not_trivial() -> None:
    for name in MODELS:
        tokens, logprobs = _alone(name)[-1]
        assert len(tokens) == len(logprobs) == COUNT and len(set(tokens)) > 2
        assert all(len(each) >= 20 for each in logprobs)


@pytest.mark.parametrize("name", MODELS)
def test_a_mixed_batch(name: str) -> None:
    assert _answers(_llm(name), _prompts(name)) == _alone(name)


@pytest.mark.parametrize("caching", [False, True])
@pytest.mark.parametrize("name", MODELS)
def test_prompts_in_chunks(name: str, caching: bool) -> None:
    for budget in (1, 3, 7):
        llm = _llm(name, max_num_batched_tokens=budget, max_num_seqs=1, enable_prefix_caching=caching)
        assert _answers(llm, _prompts(name)) == _alone(name)


@pytest.mark.parametrize("name", MODELS)
def test_a_cached_prefix(name: str) -> None:
    llm, prompts = _llm(name, max_num_batched_tokens=16, max_num_seqs=16), _prompts(name)
    assert _answers(llm, prompts) == _alone(name)
    again = llm.generate([{"prompt_token_ids": prompt} for prompt in prompts], GREEDY)
    assert [output.num_cached_tokens for output in again] == [0, 0, 8, 12, 20, 28]
    assert [(output.outputs[0].token_ids, output.outputs[0].logprobs) for output in again] == _alone(name)


@pytest.mark.parametrize("name", MODELS)
def test_an_answer_that_becomes_a_prompt(name: str) -> None:
    llm, prompt, following = _llm(name), _prompts(name)[4], [5, 2, 7]
    [(tokens, _)] = _answers(llm, [prompt])
    longer = [*prompt, *tokens, *following]
    [output] = llm.generate([{"prompt_token_ids": longer}], GREEDY)
    assert output.num_cached_tokens == (len(prompt) + COUNT - 1) // 4 * 4
    cold = _answers(_llm(name, enable_prefix_caching=False), [longer])
    assert [(output.outputs[0].token_ids, output.outputs[0].logprobs)] == cold


@pytest.mark.parametrize("name", MODELS)
def test_prompts_that_part_ways(name: str) -> None:
    """Several sequences start from one snapshot at a time."""
    stem = _prompts(name)[3]
    prompts = [[*stem, token, token + 1] for token in range(5)]
    llm = _llm(name)
    _answers(llm, [[*stem, 9]])
    outputs = llm.generate([{"prompt_token_ids": prompt} for prompt in prompts], GREEDY)
    assert [output.num_cached_tokens for output in outputs] == [len(stem)] * len(prompts)
    cold = [_answers(_llm(name, enable_prefix_caching=False), [prompt])[0] for prompt in prompts]
    assert [(output.outputs[0].token_ids, output.outputs[0].logprobs) for output in outputs] == cold


@pytest.mark.parametrize("caching", [False, True])
@pytest.mark.parametrize("name", MODELS)
def test_preempted_requests(name: str, caching: bool) -> None:
    """Memory for about two of the sequences: some are thrown out in the middle of their answers and start again."""
    group_bytes = {g.name: g.bytes_per_block(4) for g in _llm(name).model.prepared.memory.groups}
    room = sum(size * (3 if group == "recurrent" else 17) for group, size in group_bytes.items())
    llm = _llm(name, kv_cache_memory_bytes=room, enable_prefix_caching=caching)
    assert _answers(llm, _prompts(name)) == _alone(name)
    assert llm.model.engine.scheduler.preemptions > 0
