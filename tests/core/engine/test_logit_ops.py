"""The operations over logits: NumPy's, and those of an executable."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from modelhost.api.backend import SamplingExecutable
from modelhost.engine.engine import Engine
from modelhost.engine.logit_ops import NUMPY, NumpyLogitOps
from modelhost.engine.sampler import Sampler, SamplingError
from modelhost.engine.sampling_params import SamplingParams
from modelhost.testing.arrays import ConformanceError
from modelhost.testing.logit_ops import LOGIT_CHECKS

from .simulated import SimulatedExecutable, simulated_engine


@pytest.mark.parametrize("name", LOGIT_CHECKS)
def test_numpy_conforms(name):
    LOGIT_CHECKS[name](NUMPY)


# Operations with a fault each, which the checks find


class LastOfEqual(NumpyLogitOps):
    def argmax(self, rows):
        return np.array([row.size - 1 - row[::-1].argmax() for row in rows], np.int64)


class IgnoresNaN(NumpyLogitOps):
    def argmax(self, rows):
        return super().argmax([np.nan_to_num(row, nan=-np.inf) for row in rows])


class Changes(NumpyLogitOps):
    def argmax(self, rows):
        result = super().argmax(rows)
        for row in rows:
            row[:] = 0
        return result


class HighIdsFirst(NumpyLogitOps):
    def top_k(self, rows, count):
        return np.array([np.lexsort((-np.arange(row.size), -row))[:count] for row in rows], np.int64)


class OneTooMany(NumpyLogitOps):
    def nucleus(self, rows, temperatures, least, top_ps):
        return super().nucleus(rows, temperatures, least, top_ps * 1.01)


class IgnoresLeast(NumpyLogitOps):
    def nucleus(self, rows, temperatures, least, top_ps):
        return super().nucleus(rows, temperatures, np.full_like(least, -np.inf), top_ps)


class NoTemperature(NumpyLogitOps):
    def draw(self, rows, temperatures, least, last, uniforms):
        return super().draw(rows, np.ones_like(temperatures), least, last, uniforms)


class IgnoresLast(NumpyLogitOps):
    def draw(self, rows, temperatures, least, last, uniforms):
        return super().draw(rows, temperatures, least, np.full_like(last, 1 << 40), uniforms)


class DependsOnTheBatch(NumpyLogitOps):
    def draw(self, rows, temperatures, least, last, uniforms):
        return super().draw(rows, temperatures, least, last, np.full_like(uniforms, uniforms[0] / len(rows)))


@pytest.mark.parametrize(
    ("name", "faulty"),
    [
        ("argmax of logits", LastOfEqual),
        ("argmax of logits", IgnoresNaN),
        ("argmax of logits", Changes),
        ("top k of logits", HighIdsFirst),
        ("nucleus of logits", OneTooMany),
        ("nucleus of logits", IgnoresLeast),
        ("draw from logits", NoTemperature),
        ("draw from logits", IgnoresLast),
        ("draw from logits", DependsOnTheBatch),
    ],
)
def test_a_fault_is_found(name, faulty):
    with pytest.raises(ConformanceError, match="logits"):
        LOGIT_CHECKS[name](faulty())


# Who computes


class Counting:
    """NumPy's operations, each call of them counted by its name and number of rows."""

    calls: Counter

    def argmax(self, rows):
        self.calls["argmax", len(rows)] += 1
        return NUMPY.argmax(rows)

    def top_k(self, rows, count):
        self.calls["top_k", len(rows)] += 1
        return NUMPY.top_k(rows, count)

    def nucleus(self, rows, *parameters):
        self.calls["nucleus", len(rows)] += 1
        return NUMPY.nucleus(rows, *parameters)

    def draw(self, rows, *parameters):
        self.calls["draw", len(rows)] += 1
        return NUMPY.draw(rows, *parameters)


class CountingOps(Counting):
    def __init__(self):
        self.calls = Counter()


class CountingExecutable(Counting, SimulatedExecutable):
    """A simulated executable that chooses tokens too."""

    weight_bytes = 0

    def __init__(self, plain: SimulatedExecutable):
        super().__init__(plain.groups, plain.layout)
        self.calls = Counter()


def engine_on() -> tuple[Engine, CountingExecutable]:
    plain, simulated = simulated_engine()
    executable = CountingExecutable(simulated)
    return Engine(executable, plain._memory, plain.config, vocab_size=plain.vocab_size), executable


def test_the_engine_lets_an_executable_choose_that_can():
    engine, executable = engine_on()
    assert isinstance(executable, SamplingExecutable)
    plain, simulated = simulated_engine()
    assert not isinstance(simulated, SamplingExecutable)
    asked = [{"temperature": 0}, {"seed": 1}, {"seed": 2, "top_p": 0.9, "logprobs": 2}, {"seed": 3, "top_k": 5}]
    answers = []
    for each in (engine, plain):
        for index, values in enumerate(asked):
            each.add_request(str(index), [1, 2, index], SamplingParams(max_tokens=6, **values))
        finished = {}
        while each.busy:
            finished |= {o.request_id: o.outputs[0] for o in each.step() if o.finished}
        answers.append({name: (output.token_ids, output.logprobs) for name, output in finished.items()})
    assert answers[0] == answers[1]
    assert executable.calls == {
        ("argmax", 1): 6,
        ("nucleus", 1): 6,
        ("draw", 2): 6,
        ("top_k", 1): 12,
    }


def test_rows_that_are_computed_alike_are_computed_together():
    ops = CountingOps()
    sampler = Sampler(0, ops=ops)
    asked = [{"temperature": 0}, {}, {"temperature": 0.5}, {"top_k": 3}, {"top_k": 3, "top_p": 0.5}, {"top_k": 9}]
    states = [sampler.state("r", SamplingParams(**values)) for values in asked]
    sampler.sample_batch(np.random.default_rng(0).standard_normal((6, 100)).astype(np.float32), states)
    assert ops.calls == {("argmax", 1): 1, ("draw", 2): 1, ("top_k", 2): 1, ("top_k", 1): 1}


def test_a_damaged_row_takes_no_random_numbers_from_the_others():
    logits = np.random.default_rng(0).standard_normal((2, 500)).astype(np.float32)
    sampler = Sampler(0)
    good, broken, alone = (sampler.state(name, SamplingParams(seed=4)) for name in ("good", "broken", "alone"))
    damaged = logits.copy()
    damaged[1, 3] = np.nan
    with pytest.raises(SamplingError, match="'broken'"):
        sampler.sample_batch(damaged, [good, broken])
    for row in logits:
        assert sampler.sample(row, good) == sampler.sample(row, alone)
