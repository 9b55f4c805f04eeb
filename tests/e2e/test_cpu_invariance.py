"""Tokens and log-probabilities of the cpu backend are the same bits whatever else goes on.

SmolLM2 answers seven prompts, some greedily and some by seeded sampling. The answers of each prompt alone, at once and
without any caching, on one thread, are what all others are compared with.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from modelhost import LLM, SamplingParams
from modelhost.engine.engine import Engine
from modelhost.engine.outputs import RequestOutput

from .engines import another_engine

TEXT = Path(__file__).parents[2] / "benchmarks" / "perplexity.txt"
DTYPES = ("bfloat16", "float32")
LENGTHS = (1, 2, 15, 16, 33, 70, 100)
ANSWER = 16
GREEDY = SamplingParams(temperature=0, max_tokens=ANSWER, logprobs=5, ignore_eos=True)
SAMPLED = SamplingParams(temperature=0.9, top_p=0.9, seed=5, max_tokens=ANSWER, logprobs=5, ignore_eos=True)
Request = tuple[list[int], SamplingParams]
Answer = tuple[list[int], Any]
Load = Callable[..., LLM]


@pytest.fixture(scope="module")
def load(checkpoint_file: Callable[[str], Path]) -> Load:
    """Loads SmolLM2; once for each dtype, number of threads and mode."""
    path = str(checkpoint_file("smollm2"))

    @cache
    def loaded(dtype: str, threads: int = 1, deterministic: bool = False) -> LLM:
        settings: dict[str, Any] = {"dtype": dtype, "threads": threads, "deterministic": deterministic}
        return LLM(path, backend="cpu", max_model_len=256, max_num_seqs=8, memory_bytes=1 << 30, **settings)

    return loaded


@pytest.fixture(scope="module")
def text(load: Load) -> list[int]:
    return load("bfloat16").get_tokenizer().encode(TEXT.read_text())


@pytest.fixture(scope="module")
def requests(text: list[int]) -> list[Request]:
    prompts = [text[150 * index :][:length] for index, length in enumerate(LENGTHS)]
    return [(prompt, SAMPLED if index % 3 == 2 else GREEDY) for index, prompt in enumerate(prompts)]


def answers(engine: Engine, requests: Sequence[Request]) -> tuple[list[Answer], list[int]]:
    """The answers to all prompts together, and how many tokens of each prompt were cached."""
    for index, (prompt, params) in enumerate(requests):
        engine.add_request(str(index), prompt, params)
    finished: dict[str, RequestOutput] = {}
    while engine.busy:
        finished |= {output.request_id: output for output in engine.step() if output.finished}
    outputs = [finished[str(index)] for index in range(len(requests))]
    found = [(output.outputs[0].token_ids, output.outputs[0].logprobs) for output in outputs]
    return found, [output.num_cached_tokens for output in outputs]


def alone(llm: LLM, requests: Sequence[Request]) -> list[Answer]:
    """The answer to each prompt alone, at once, and without caching."""
    engine = another_engine(llm, enable_prefix_caching=False, speculative_config=None)
    return [answers(engine, [request])[0][0] for request in requests]


@pytest.fixture(scope="module")
def expected(load: Load, requests: list[Request]) -> Callable[[str], list[Answer]]:
    """The answers by dtype."""
    return cache(lambda dtype: alone(load(dtype), requests))


def test_the_answers_are_not_trivial(expected: Callable[[str], list[Answer]]) -> None:
    for dtype in DTYPES:
        assert all(len(tokens) == len(logprobs) == ANSWER for tokens, logprobs in expected(dtype))
        assert sum(len(set(tokens)) > 8 for tokens, _ in expected(dtype)) >= 5
    assert expected("bfloat16") != expected("float32")


@pytest.mark.parametrize("dtype", DTYPES)
def test_among_others_and_from_cached_prefixes(dtype: str, load: Load, requests: list[Request], expected: Any) -> None:
    engine = another_engine(load(dtype))
    found, cached = answers(engine, requests)
    assert found == expected(dtype)
    assert cached == [0] * len(requests)
    found, cached = answers(engine, requests[::-1])
    assert found == expected(dtype)[::-1]
    assert cached[::-1] == [0, 0, 0, 0, 32, 64, 96]


@pytest.mark.parametrize("budget", [8, 50])
@pytest.mark.parametrize("dtype", DTYPES)
def test_prompts_in_chunks(dtype: str, budget: int, load: Load, requests: list[Request], expected: Any) -> None:
    engine = another_engine(load(dtype), max_num_batched_tokens=budget)
    assert answers(engine, requests)[0] == expected(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_prompts_that_part_ways(dtype: str, load: Load, text: list[int]) -> None:
    requests = [(text[:70] + text[start : start + 20], GREEDY) for start in (70, 200, 300)]
    engine = another_engine(load(dtype))
    answers(engine, [(text[:80], GREEDY)])
    found, cached = answers(engine, requests)
    assert cached == [80, 64, 64]
    assert found == alone(load(dtype), requests)


@pytest.mark.parametrize("threads", [2, 3])
@pytest.mark.parametrize("dtype", DTYPES)
def test_threads(dtype: str, threads: int, load: Load, requests: list[Request], expected: Any) -> None:
    assert answers(another_engine(load(dtype, threads)), requests)[0] == expected(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_preempted_requests(dtype: str, load: Load, requests: list[Request], expected: Any) -> None:
    engine = another_engine(load(dtype), cache_tokens=192, enable_prefix_caching=False)
    assert answers(engine, requests)[0] == expected(dtype)
    assert engine.scheduler.preemptions > 0


def test_a_preempted_request_whose_answer_is_in_another_prompt(load: Load, text: list[int]) -> None:
    """Going on, it takes none of the other's blocks: there its tokens are computed by the kernels of prompts."""
    llm = load("bfloat16")
    params = SamplingParams(temperature=0, max_tokens=60, logprobs=3, ignore_eos=True)
    [expected] = alone(llm, [(text[:40], params)])
    engine = another_engine(llm, cache_tokens=256, scheduling_policy="priority")
    longer = [("quoting", text[:40] + expected[0][:45], 100), ("third", text[300:360], 50)]
    for name, prompt, count in longer:
        engine.add_request(name, prompt, SamplingParams(temperature=0, max_tokens=count, ignore_eos=True))
        engine.step()
    engine.add_request("preempted", text[:40], params, priority=1)
    finished: dict[str, RequestOutput] = {}
    while engine.busy:
        finished |= {output.request_id: output for output in engine.step() if output.finished}
    assert engine.scheduler.preemptions > 0
    answer = finished["preempted"].outputs[0]
    assert (answer.token_ids, answer.logprobs) == expected


@pytest.mark.parametrize("dtype", DTYPES)
def test_speculation(dtype: str, load: Load, text: list[int], requests: list[Request], expected: Any) -> None:
    """Drafts change nothing, greedy or sampled. Repetitive prompts see to it that many are right."""
    engine = another_engine(load(dtype), speculative_config={"method": "ngram", "num_speculative_tokens": 4})
    assert answers(engine, requests)[0] == expected(dtype)
    repetitive = [(text[start : start + 9] * 4, GREEDY) for start in (40, 90, 140)]
    assert answers(engine, repetitive)[0] == alone(load(dtype), repetitive)
    assert engine.speculation.accepted > 10


@pytest.mark.parametrize("dtype", DTYPES)
def test_answers_that_become_prompts(dtype: str, load: Load, text: list[int]) -> None:
    """In deterministic mode a block of an answer serves as that of a prompt."""
    llm = load(dtype, 2, deterministic=True)
    engine = another_engine(llm)
    first = [(text[:34], GREEDY), (text[200:240], SAMPLED)]
    found, _ = answers(engine, first)
    replies = [(prompt + tokens + text[300:310], GREEDY) for (prompt, _), (tokens, _) in zip(first, found, strict=True)]
    again, cached = answers(engine, replies)
    assert cached == [48, 48]
    assert found == alone(llm, first)
    assert again == alone(llm, replies)
