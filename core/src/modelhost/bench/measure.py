"""The two things that are timed: the first token of a prompt, and the steps that follow."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from modelhost.api import MemoryBudgetError
from modelhost.engine.engine import Engine
from modelhost.engine.sampling_params import SamplingParams


def first_token_seconds(engine: Engine, prompt: Sequence[int]) -> float:
    """Seconds from queueing ``prompt`` to its first token."""
    started = time.perf_counter()
    engine.add_request("benchmark", prompt, _greedy(1))
    while engine.busy:
        engine.step()
    return time.perf_counter() - started


def decode_seconds(engine: Engine, prompts: Sequence[Sequence[int]], steps: int) -> list[float]:
    """Seconds of each of ``steps`` steps in which every one of ``prompts`` gets a token; their prefill is not timed.

    Raises:
        MemoryBudgetError: the KV cache does not hold all sequences at once.
    """
    seconds = []
    with generating(engine, prompts):
        for _ in range(steps):
            started = time.perf_counter()
            outputs = engine.step()
            seconds.append(time.perf_counter() - started)
            if len(outputs) < len(prompts):
                raise _too_many(prompts)
    return seconds


@contextmanager
def generating(engine: Engine, prompts: Sequence[Sequence[int]]) -> Iterator[None]:
    """Within this context every prompt has its first token and none is finished.

    Raises:
        MemoryBudgetError: the KV cache does not hold all sequences at once.
    """
    ids = [f"benchmark-{index}" for index in range(len(prompts))]
    try:
        for request_id, prompt in zip(ids, prompts, strict=True):
            engine.add_request(request_id, prompt, _greedy(None))
        started: set[str] = set()
        while len(started) < len(ids):
            started.update(output.request_id for output in engine.step())
        if len(engine.scheduler.running) < len(prompts):
            raise _too_many(prompts)
        yield
    finally:
        for request_id in ids:
            engine.abort(request_id)


def _greedy(max_tokens: int | None) -> SamplingParams:
    return SamplingParams(temperature=0, max_tokens=max_tokens, ignore_eos=True)


def _too_many(prompts: Sequence[Sequence[int]]) -> MemoryBudgetError:
    return MemoryBudgetError(
        f"the KV cache does not hold {len(prompts)} sequences of {max(map(len, prompts))} tokens and more; "
        "choose a smaller --batch or --context, or a larger --kv-cache-memory-bytes"
    )
