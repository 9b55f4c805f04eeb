"""The threads and the loop over the ops of a step."""

from __future__ import annotations

import multiprocessing
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from modelhost_cpu.backend import CpuBackend
from modelhost_cpu.executable import CpuExecutable
from modelhost_cpu.language.types import i32, i64
from modelhost_cpu.machine import host_target
from modelhost_cpu.native.compiler import Compiler
from modelhost_cpu.native.kernel import Kernel, KernelSpec
from modelhost_cpu.native.pool import ThreadPool
from modelhost_cpu.settings import CpuSettings

from modelhost.testing.arrays import RandomWeights
from modelhost.testing.paged_steps import Chunk, PagedSteps
from modelhost.testing.small_decoder import VARIANTS, decoder_graph

THREADS = (1, 2, 3)
Long = npt.NDArray[np.int64]
threads_ = pytest.mark.parametrize("threads", THREADS)


def count_chunk(k: Kernel) -> None:
    """Kernel: add one to ``counts[chunk]``, and note in ``late`` a chunk for which ``before`` is not counted yet."""
    k.atomic_add(k.pointer("counts") + k.chunk * 8, 0, k.constant(i64, 1))
    with k.loop(0, k.number("chunks_before")) as other, k.when(k.load(i64, k.pointer("before"), other * 8) < 1):
        k.atomic_add(k.pointer("late"), 0, k.constant(i64, 1))


def meet(k: Kernel) -> None:
    """Kernel: count in ``met`` the chunks that saw all chunks begin; those that waited in vain give up."""
    everybody, patience = k.number("threads"), k.variable(k.constant(i64, 10_000_000))
    k.atomic_add(k.pointer("arrived"), 0, k.constant(i64, 1))
    head, wait, done = (k.raw.append_basic_block(name) for name in ("head", "wait", "done"))
    k.builder.branch(head)
    k.builder.position_at_end(head)
    complete = k.atomic_add(k.pointer("arrived"), 0, k.constant(i64, 0)) >= everybody
    k.builder.cbranch(complete.raw, done, wait)
    k.builder.position_at_end(wait)
    k.call("sched_yield", i32)
    patience.add(k.constant(i64, -1))
    k.builder.cbranch((patience.value > 0).raw, head, done)
    k.builder.position_at_end(done)
    with k.when(patience.value > 0):
        k.atomic_add(k.pointer("met"), 0, k.constant(i64, 1))


def mark_scratch(k: Kernel) -> None:
    """Kernel: fill scratch memory with the chunk's number, wait, and count what has changed."""
    count = k.number("words")
    with k.loop(0, count) as word:
        k.store(k.chunk, k.scratch, word * 8)
    k.call("sched_yield", i32)
    with k.loop(0, count) as word, k.unless(k.load(i64, k.scratch, word * 8).equals(k.chunk)):
        k.atomic_add(k.pointer("changed"), 0, k.constant(i64, 1))


@cache
def compiler() -> Compiler:
    return Compiler(host_target(), None)


@cache
def pool(threads: int) -> ThreadPool:
    return ThreadPool(compiler(), threads)


@dataclass
class Steps:
    """Ops with their slots, as a step takes them."""

    ops: list[tuple[Callable[..., None], int, int, dict[str, Any]]] = field(default_factory=list)

    def add(self, emit: Callable[..., None], work: int, grain: int = 1, columns: int = 1, **slots: Any) -> None:
        self.ops.append((emit, grain, columns, {"work": work, **slots}))

    def run(self, threads: int, times: Long | None = None) -> None:
        specs = [KernelSpec(emit, (), tuple(slots)) for emit, _, _, slots in self.ops]
        addresses = compiler().kernels(specs)
        values = [
            value if isinstance(value, int) else value.ctypes.data for *_, slots in self.ops for value in slots.values()
        ]
        memory, recipes = np.zeros(len(values), np.int64), np.zeros((len(values), 4), np.int64)
        recipes[:, 3] = values
        rows, place = [], memory.ctypes.data
        for spec, (_, grain, columns, slots) in zip(specs, self.ops, strict=True):
            rows.append([addresses[spec], place, grain, columns])
            place += 8 * len(slots)
        zero = np.zeros(1, np.int64)
        pool(threads).run(np.array(rows, np.int64), recipes, memory, zero, zero, times)


def _counting(sizes: Sequence[tuple[int, int, int]]) -> tuple[Steps, list[Long], Long]:
    """Ops of some work, grain and columns, each of which sees whether the one before it was complete."""
    steps, late = Steps(), np.zeros(1, np.int64)
    counts = [np.zeros(max(1, -(-work // grain) * columns), np.int64) for work, grain, columns in sizes]
    before, chunks_before = late, 0
    for (work, grain, columns), mine in zip(sizes, counts, strict=True):
        slots = {"counts": mine, "before": before, "chunks_before": chunks_before, "late": late}
        steps.add(count_chunk, work, grain, columns, **slots)
        before, chunks_before = mine, len(mine) if work else 0
    return steps, counts, late


SIZES = [(1, 1, 1), (7, 2, 1), (0, 4, 3), (1000, 1, 1), (5, 100, 1), (3, 1, 64), (40, 16, 5), (1, 1, 1), (1, 1, 1)]


@threads_
def test_every_chunk_runs_once_and_after_the_op_before(threads: int) -> None:
    steps, counts, late = _counting(SIZES)
    for times in range(1, 20):
        for array in counts:
            array[:] = np.where(array > 0, times - 1, array)
        steps.run(threads)
        for (work, grain, columns), array in zip(SIZES, counts, strict=True):
            assert (array == (times if -(-work // grain) * columns else 0)).all()
        assert late[0] == 0


@threads_
def test_thousands_of_steps(threads: int) -> None:
    """Short ops one after the other, so that threads keep coming late for some."""
    steps, counts, _ = _counting([(chunks, 1, 1) for chunks in (1, 2, 3, 1, 2, 64, 2, 1)])
    for _ in range(3000):
        steps.run(threads)
    assert all((array == 3000).all() for array in counts)


def _meet(threads: int) -> None:
    """An op of which each thread must take one chunk."""
    steps, arrived, met = Steps(), np.zeros(1, np.int64), np.zeros(1, np.int64)
    steps.add(meet, threads, threads=threads, arrived=arrived, met=met)
    steps.run(threads)
    assert met[0] == threads


@pytest.mark.parametrize("threads", [2, 3])
def test_all_threads_take_part(threads: int) -> None:
    for _ in range(5):
        _meet(threads)


@pytest.mark.parametrize("threads", [2, 3])
def test_threads_sleep_between_steps_and_wake_up(threads: int) -> None:
    for _ in range(5):
        _meet(threads)
        time.sleep(0.02)  # spinning ends
        busy = time.process_time()
        time.sleep(0.1)
        assert time.process_time() - busy < 0.05
        _meet(threads)


@threads_
def test_every_thread_has_scratch_memory_of_its_own(threads: int) -> None:
    changed = np.zeros(1, np.int64)
    for words in (8, 1000, 100_000):
        pool(threads).reserve_scratch(8 * words)
        steps = Steps()
        for _ in range(20):
            steps.add(mark_scratch, 7, words=words, changed=changed)
        steps.run(threads)
    assert changed[0] == 0


@threads_
def test_steps_of_two_python_threads(threads: int) -> None:
    """They run one after the other, each of them whole."""
    counted = [_counting(SIZES) for _ in range(2)]

    def run(steps: Steps) -> None:
        for _ in range(300):
            steps.run(threads)

    runners = [threading.Thread(target=run, args=(steps,)) for steps, _, _ in counted]
    for runner in runners:
        runner.start()
    for runner in runners:
        runner.join()
    for _, counts, late in counted:
        assert all((array == (300 if array.any() else 0)).all() for array in counts)
        assert sum(int(array.sum()) for array in counts) == 300 * sum(
            -(-work // grain) * columns for work, grain, columns in SIZES
        )
        assert late[0] == 0


@threads_
def test_times_of_ops(threads: int) -> None:
    steps, _, _ = _counting(SIZES)
    times = np.zeros(len(SIZES) + 1, np.int64)
    steps.run(threads, times)
    assert times[0] > 0
    assert (np.diff(times) >= 0).all()
    slow = np.argmax(np.diff(times))
    assert SIZES[slow][0] > 0


_PAGING = PagedSteps(vocabulary=VARIANTS[0].vocabulary)


def _decoder(threads: int) -> tuple[CpuExecutable, dict[str, npt.NDArray[np.int32]]]:
    backend = CpuBackend(settings=CpuSettings(threads=threads))
    weights = RandomWeights()
    graph = decoder_graph(VARIANTS[0], backend, weights.encoding_of)
    return backend.compile(graph, weights, _PAGING.layout(graph)), _PAGING.inputs(graph, (Chunk(0, 0, 9),))


def _run_in_child(threads: int, results: Any) -> None:
    executable, inputs = _CHILDREN[threads]
    results.put(executable.run(inputs)["logits"])


_CHILDREN: dict[int, tuple[CpuExecutable, dict[str, npt.NDArray[np.int32]]]] = {}


@threads_
def test_a_forked_process_runs_steps(threads: int) -> None:
    """The threads of a pool do not exist in a child; it starts its own."""
    _CHILDREN[threads] = _decoder(threads)
    executable, inputs = _CHILDREN[threads]
    wanted = executable.run(inputs)["logits"]
    context = multiprocessing.get_context("fork")
    results = context.SimpleQueue()
    child = context.Process(target=_run_in_child, args=(threads, results))
    child.start()
    child.join(60)
    assert child.exitcode == 0
    np.testing.assert_array_equal(results.get(), wanted)
    np.testing.assert_array_equal(executable.run(inputs)["logits"], wanted)


_SCRIPT = """
import numpy as np
from modelhost_cpu.machine import host_target
from modelhost_cpu.native.compiler import shared_compiler
from modelhost_cpu.native.pool import shared_pool
pool = shared_pool(shared_compiler(host_target(), False), 3)
nothing = np.zeros((0, 4), np.int64)
pool.run(nothing, nothing, np.zeros(0, np.int64), np.zeros(1, np.int64), np.zeros(1, np.int64))
"""


def test_a_process_ends_while_its_threads_spin() -> None:
    for _ in range(3):
        subprocess.run([sys.executable, "-X", "faulthandler", "-c", _SCRIPT], check=True, timeout=60)
