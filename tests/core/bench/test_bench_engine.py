"""Measuring a tiny model on the reference backend."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from modelhost.api import MemoryBudgetError, UnsupportedError
from modelhost.api.backend import OpTime
from modelhost.bench import (
    Workload,
    decode_seconds,
    first_token_seconds,
    generating,
    load_model,
    measure_model,
    peak_memory,
    profile_model,
    profiled_executable,
)
from modelhost.bench.profile import added_up
from modelhost.engine.model import ServedModel
from tests.tiny_model import VOCAB_SIZE, write_tiny_model

WORKLOAD = Workload(prompt_lengths=(4, 16), contexts=(8, 24), batches=(2, 3), output_tokens=5, repetitions=2)


FULL = replace(WORKLOAD, batches=(3,))


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(write_tiny_model(tmp_path_factory.mktemp("tiny") / "model"))


def load(model: str, **settings: Any) -> ServedModel:
    return load_model(model, WORKLOAD.engine_config({"backend": "reference", **settings}), WORKLOAD)[0]


class Watched:
    """An executable that keeps the inputs of every step."""

    def __init__(self, served: ServedModel) -> None:
        self.inner: Any = served.engine.executable
        self.steps: list[Mapping[str, Any]] = []
        served.engine.executable = self

    @property
    def weight_bytes(self) -> int:
        return int(self.inner.weight_bytes)

    def run(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        self.steps.append(inputs)
        results: dict[str, Any] = self.inner.run(inputs)
        return results


def test_stages_of_loading_add_up(model: str) -> None:
    _, load = load_model(model, WORKLOAD.engine_config({"backend": "reference"}), WORKLOAD)
    assert min(load.prepare, load.weights, load.first_token) > 0
    assert load.total == load.prepare + load.weights + load.first_token


def test_first_token_is_one_step_of_the_whole_prompt(model: str) -> None:
    served = load(model)
    watched = Watched(served)
    prompt = list(range(16))
    assert first_token_seconds(served.engine, prompt) > 0
    assert [step["token_ids"].tolist() for step in watched.steps] == [prompt]
    assert not served.engine.busy


@pytest.mark.parametrize("size", [9 << 10, 12 << 10, 18 << 10])
def test_cache_that_does_not_hold_the_batch(model: str, size: int) -> None:
    served = load(model, kv_cache_memory_bytes=size)
    for measure in (lambda prompts: decode_seconds(served.engine, prompts, 5), lambda _: profile_model(served, FULL)):
        with pytest.raises(MemoryBudgetError, match="does not hold 3 sequences of 24 tokens"):
            measure(WORKLOAD.prompts(3, 24, VOCAB_SIZE))
        assert not served.engine.busy


@pytest.mark.parametrize("step_tokens", [2048, 10])
def test_timed_steps_have_one_token_of_every_sequence(model: str, step_tokens: int) -> None:
    served = load(model, max_num_batched_tokens=step_tokens)
    watched = Watched(served)
    assert len(decode_seconds(served.engine, WORKLOAD.prompts(3, 24, VOCAB_SIZE), 5)) == 5
    timed = watched.steps[-5:]
    assert all(step["generated"].tolist() == [1, 1, 1] for step in timed)
    assert all(context >= 24 + 1 for context in timed[0]["context_lengths"])
    assert not served.engine.busy


def test_nothing_is_taken_from_a_prefix_cache(model: str) -> None:
    served = load(model)
    watched = Watched(served)
    for _ in range(2):
        first_token_seconds(served.engine, list(range(16)))
    assert [len(step["token_ids"]) for step in watched.steps] == [16, 16]


def test_generating_leaves_the_engine_idle_after_an_error(model: str) -> None:
    served = load(model)
    with pytest.raises(KeyError), generating(served.engine, WORKLOAD.prompts(2, 8, VOCAB_SIZE)):
        assert len(served.engine.scheduler.running) == 2
        raise KeyError
    assert not served.engine.busy


def test_everything_is_measured_in_each_repetition(model: str) -> None:
    found = measure_model(load(model).engine, WORKLOAD)
    assert [(one.prompt_length, len(one.seconds)) for one in found.prefill] == [(4, 2), (16, 2)]
    assert [(one.context, one.batch) for one in found.decode] == list(WORKLOAD.decodes)
    assert all([len(steps) for steps in one.steps] == [5, 5] for one in found.decode)


def test_peak_memory_grows_with_what_is_used() -> None:
    before = peak_memory()
    block = np.ones(64 << 20, np.uint8)
    after = peak_memory()
    assert before is not None and after is not None
    assert 0 < before <= after
    assert after >= block.nbytes


def test_profile_has_every_op_of_both_steps(model: str) -> None:
    served = load(model)
    decode, prefill = profile_model(served, WORKLOAD)
    assert (decode.step, prefill.step) == ("decode, context 24, batch 2", "prefill, 16 tokens")
    nodes = served.prepared.graph.nodes
    for profile in (decode, prefill):
        assert sum(op.calls for op in profile.ops) == len(nodes)
        assert {op.name for op in profile.ops} == {node.op.name for node in nodes}
        assert [op.seconds for op in profile.ops] == sorted((op.seconds for op in profile.ops), reverse=True)
        assert profile.seconds == pytest.approx(sum(op["seconds"] for op in profile.data()["ops"]))
    assert not served.engine.busy
    assert served.engine.executable is profiled_executable(served)


def test_bytes_that_linear_ops_read_are_those_of_their_weights(model: str) -> None:
    served = load(model)
    decode, _ = profile_model(served, WORKLOAD)
    read = sum(op.bytes_read or 0 for op in decode.ops if op.name == "linear")
    weights = {node.operands[1] for node in served.prepared.graph.nodes if node.op.name == "linear"}
    assert read == sum(weight.nbytes({}) for weight in weights)  # type: ignore[union-attr]
    assert {op.bytes_read for op in decode.ops if op.name in ("embed", "attention", "write_cache")} == {None}


def test_a_profiled_step_fills_the_caches_like_any_other(model: str) -> None:
    served = load(model)
    watched = Watched(served)
    decode_seconds(served.engine, [list(range(16))], 1)
    prefill, decode = watched.steps
    fresh = profiled_executable(load(model))
    fresh.profile(prefill)
    np.testing.assert_array_equal(fresh.run(decode)["logits"], watched.inner.run(decode)["logits"])


def test_backend_that_cannot_time_its_ops(model: str) -> None:
    served = load(model)
    Watched(served)
    with pytest.raises(UnsupportedError, match="the reference backend cannot time its ops; leave --profile out"):
        profile_model(served, WORKLOAD)


def test_times_of_the_same_name_and_detail_are_added_up() -> None:
    times = [
        OpTime("linear", "a", 1, 1.0, 10),
        OpTime("linear", "b", 1, 2.5, None),
        OpTime("linear", "a", 2, 2.0, 20),
        OpTime("linear", "b", 1, 1.5, 5),
    ]
    assert added_up(times) == (OpTime("linear", "b", 2, 4.0, None), OpTime("linear", "a", 3, 3.0, 30))
