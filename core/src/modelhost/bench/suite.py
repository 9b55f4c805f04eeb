"""Runs a workload on an engine."""

from __future__ import annotations

from modelhost.engine.engine import Engine

from .measure import decode_seconds, first_token_seconds
from .results import Measurements
from .workload import Workload


def measure_model(engine: Engine, workload: Workload) -> Measurements:
    """Measure everything once without counting it, and then ``workload.repetitions`` times.

    A repetition goes through all measurements, so that what disturbs the machine for a while spoils a little of each.

    Raises:
        MemoryBudgetError: the KV cache does not hold a batch.
    """
    measure_once(engine, workload)
    measurements = Measurements.of(workload)
    for _ in range(workload.repetitions):
        measure_once(engine, workload, measurements)
    return measurements


def measure_once(engine: Engine, workload: Workload, measurements: Measurements | None = None) -> None:
    """One repetition, added to ``measurements``; nothing is kept of it when ``None``.

    Raises:
        MemoryBudgetError: the KV cache does not hold a batch.
    """
    measurements = measurements or Measurements.of(workload)
    for prefill in measurements.prefill:
        [prompt] = workload.prompts(1, prefill.prompt_length, engine.vocab_size)
        prefill.seconds.append(first_token_seconds(engine, prompt))
    for decode in measurements.decode:
        prompts = workload.prompts(decode.batch, decode.context, engine.vocab_size)
        decode.steps.append(decode_seconds(engine, prompts, workload.output_tokens))
