"""Choosing tokens by rows of logits as long as large vocabularies. The conformance kit has the odd small ones."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest
from modelhost_cpu.backend import CpuBackend
from modelhost_cpu.logits import CpuLogitOps
from modelhost_cpu.machine import Isa, host_target
from modelhost_cpu.native.compiler import shared_compiler
from modelhost_cpu.native.pool import shared_pool

from modelhost.api import UnsupportedError
from modelhost.api.backend import LogitOps, SamplingExecutable
from modelhost.testing.arrays import RandomWeights
from modelhost.testing.logit_ops import require_argmax, require_draw, require_nucleus, require_top_k
from modelhost.testing.paged_steps import PagedSteps
from modelhost.testing.small_decoder import VARIANTS, decoder_graph

Float = npt.NDArray[np.float32]
LARGE = (151_936, 262_144, 262_147)


def _machines() -> list[tuple[Isa, int]]:
    """Instruction sets and threads."""
    machines: list[tuple[Isa, int]] = [("auto", threads) for threads in (1, 2, 3)]
    older: tuple[Isa, ...] = ("avx2", "baseline")
    for isa in older:
        try:
            host_target().limited(isa)
        except UnsupportedError:
            continue
        machines.append((isa, 2))
    return machines


MACHINES = _machines()
machines = pytest.mark.parametrize(("isa", "threads"), MACHINES)


def ops_of(isa: Isa, threads: int) -> LogitOps:
    target = host_target() if isa == "auto" else host_target().limited(isa)
    compiler = shared_compiler(target, True)
    return CpuLogitOps(compiler, shared_pool(compiler, threads))


def rows_of(count: int, size: int, scale: float = 2.0, seed: int = 0) -> list[Float]:
    return list((np.random.default_rng(seed).standard_normal((count, size)) * scale).astype(np.float32))


def best(row: Float, count: int) -> npt.NDArray[np.int64]:
    return np.argsort(-row, kind="stable")[:count]


def everything(count: int) -> Float:
    """No least logit."""
    return np.full(count, -np.inf, np.float32)


def share_range(row: Float, temperature: float, token: int, order: npt.NDArray[np.int64]) -> tuple[float, float]:
    """The share of the weights of the tokens before ``token`` in an order, and with it."""
    weights = np.exp((row.astype(np.float64) - float(row.max())) / temperature)[order]
    sums, place = weights.cumsum() / weights.sum(), int(np.flatnonzero(order == token)[0])
    return sums[place] - weights[place] / weights.sum(), sums[place]


@machines
def test_greedy_choices_in_large_vocabularies(isa: Isa, threads: int) -> None:
    require_argmax(ops_of(isa, threads), LARGE)


@machines
def test_the_best_of_large_vocabularies(isa: Isa, threads: int) -> None:
    ops = ops_of(isa, threads)
    for size in LARGE:
        rows = rows_of(3, size)
        rows += [np.round(row) for row in rows]
        for count in (1, 40, 3000):
            np.testing.assert_array_equal(ops.top_k(rows, count), [best(row, count) for row in rows])


def test_the_best_of_rows_with_many_equal_logits() -> None:
    require_top_k(ops_of("auto", 3), (262_147,))


@machines
@pytest.mark.parametrize("check", [require_nucleus, require_draw])
def test_shares_in_large_vocabularies(check: Callable[..., None], isa: Isa, threads: int) -> None:
    check(ops_of(isa, threads), (262_147,))


TEMPERATURES = np.array([0.3, 1.0, 1.0, 5.0])


@machines
@pytest.mark.parametrize("scale", [1e-4, 2.0, 8.0])
def test_shares_are_exact_to_seven_digits(scale: float, isa: Isa, threads: int) -> None:
    ops, rows = ops_of(isa, threads), rows_of(4, 100_003, scale)
    for number in (0.01, 0.5, 0.95, 0.999):
        numbers = np.full(4, number)
        tokens = ops.nucleus(rows, TEMPERATURES, everything(4), numbers)
        drawn = ops.draw(rows, TEMPERATURES, everything(4), np.full(4, rows[0].size), numbers)
        for row, temperature, last, token in zip(rows, TEMPERATURES, tokens.tolist(), drawn.tolist(), strict=True):
            for one, order in ((last, best(row, row.size)), (token, np.arange(row.size))):
                before, through = share_range(row, temperature, one, order)
                assert before - 1e-7 <= number <= through + 1e-7


def test_one_logit_far_from_all_others_that_are_nearly_equal() -> None:
    """All but one logit lie in one bucket."""
    row = rows_of(1, 50_000, 1e-3)[0]
    row[77] = 9
    (token,) = ops_of("auto", 2).nucleus([row], np.ones(1), everything(1), np.array([0.6])).tolist()
    before, through = share_range(row, 1.0, token, best(row, row.size))
    assert before - 1e-7 <= 0.6 <= through + 1e-7


@pytest.mark.parametrize("size", [1000, 49_155])
def test_results_do_not_depend_on_batch_or_threads(size: int) -> None:
    rows, last = rows_of(12, size), np.full(12, size)
    temperatures, uniforms = np.linspace(0.2, 4, 12), np.random.default_rng(2).random((30, 12))
    least = np.where(np.arange(12) % 2, np.float32(-1.5), np.float32(-np.inf)).astype(np.float32)
    wanted = ops_of("auto", 1)
    nuclei = wanted.nucleus(rows, temperatures, least, uniforms[0])
    draws = [wanted.draw(rows, temperatures, least, last, numbers) for numbers in uniforms]
    for threads in (1, 2, 3):
        ops = ops_of("auto", threads)
        for some in (slice(None), slice(None, None, -1), slice(5, 6), slice(2, 7)):
            own = rows[some], temperatures[some], least[some]
            np.testing.assert_array_equal(ops.nucleus(*own, uniforms[0][some]), nuclei[some])
            for numbers, tokens in zip(uniforms, draws, strict=True):
                np.testing.assert_array_equal(ops.draw(*own, last[some], numbers[some]), tokens[some])


@machines
def test_tokens_are_drawn_as_often_as_their_weights_say(isa: Isa, threads: int) -> None:
    count, size, temperature = 20_000, 9000, 0.5
    row = rows_of(1, size, 1.0)[0]
    uniforms = np.random.default_rng(1).random(count)
    tokens = ops_of(isa, threads).draw(
        [row] * count,
        np.full(count, temperature),
        everything(count),
        np.full(count, size),
        uniforms,
    )
    shares = np.add.reduceat(np.exp(row.astype(np.float64) / temperature), np.arange(0, size, 300))
    expected = count * shares / shares.sum()
    counts = np.bincount(tokens // 300, minlength=len(expected))
    assert ((counts - expected) ** 2 / expected).sum() < 65.0  # exceeded once in 6,000 times at 29 degrees of freedom


def test_more_rows_than_the_memory_between_kernels_holds() -> None:
    rows = rows_of(7, 5003) * 60
    ops, top_ps = ops_of("auto", 2), np.full(len(rows), 0.7)
    np.testing.assert_array_equal(ops.top_k(rows, 30), np.tile([best(row, 30) for row in rows[:7]], (60, 1)))
    alone = ops.nucleus(rows[:7], np.ones(7), everything(7), top_ps[:7])
    together = ops.nucleus(rows, np.ones(len(rows)), everything(len(rows)), top_ps)
    np.testing.assert_array_equal(together, np.tile(alone, 60))


def test_rows_wherever_they_lie() -> None:
    ops, rows = ops_of("auto", 2), rows_of(4, 4097)
    wanted = [int(row.argmax()) for row in rows]
    for gap in (1, 3, 6):
        memory = np.full((4, 4097 + gap), np.inf, np.float32)
        memory[:, :4097] = rows
        assert ops.argmax([own[:4097] for own in memory]).tolist() == wanted


def test_no_rows() -> None:
    ops, none = ops_of("auto", 2), np.empty(0)
    assert ops.argmax([]).shape == (0,)
    assert ops.top_k([], 3).shape == (0, 3)
    assert ops.draw([], none, none.astype(np.float32), none.astype(np.int64), none).shape == (0,)


def test_a_compiled_graph_chooses_tokens() -> None:
    paging, weights = PagedSteps(vocabulary=VARIANTS[0].vocabulary), RandomWeights()
    backend = CpuBackend()
    graph = decoder_graph(VARIANTS[0], backend, weights.encoding_of)
    assert isinstance(backend.compile(graph, weights, paging.layout(graph)), SamplingExecutable)
