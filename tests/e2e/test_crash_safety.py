"""What a model on the cpu backend survives: interrupts, threads, forks, and being made again and again."""

from __future__ import annotations

import multiprocessing
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from modelhost import LLM, SamplingParams
from tests.tiny_model import write_tiny_model

from .process import resident_bytes, thread_count

linux_only = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc, or forks")
PROMPTS = [{"prompt_token_ids": list(range(first, first + length))} for first, length in ((3, 5), (40, 37), (90, 20))]
GREEDY = SamplingParams(temperature=0, max_tokens=6, ignore_eos=True)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_model(tmp_path_factory.mktemp("tiny") / "model")


def load(path: Path, **settings: Any) -> LLM:
    return LLM(str(path), **{"backend": "cpu", "threads": 2, "block_size": 4, "memory_bytes": 1 << 28, **settings})


def answers(llm: LLM) -> list[list[int]]:
    return [output.outputs[0].token_ids for output in llm.generate(PROMPTS, GREEDY)]


@contextmanager
def tracing(packages: tuple[str, ...], at_line: Callable[[], None]) -> Iterator[None]:
    """Call ``at_line`` before every line of the packages that this thread executes."""

    def local(frame: FrameType, event: str, argument: Any) -> Any:
        if event == "line":
            at_line()
        return local

    def begin(frame: FrameType, event: str, argument: Any) -> Any:
        name = frame.f_globals.get("__name__", "")
        return local if name.startswith(packages) else None

    before = sys.gettrace()
    sys.settrace(begin)
    try:
        yield
    finally:
        sys.settrace(before)


def interrupted(function: Callable[[], Any], line: int, *packages: str) -> bool:
    """Call ``function``, with a KeyboardInterrupt before line number ``line`` that the packages execute.

    Returns:
        whether it came to that.
    """
    left = line

    def count() -> None:
        nonlocal left
        left -= 1
        if left == 0:
            raise KeyboardInterrupt

    with tracing(packages, count):
        try:
            function()
        except KeyboardInterrupt:
            return True
    return False


def check_idle(llm: LLM) -> None:
    scheduler = llm.model.engine.scheduler
    assert not llm.model.engine.busy and not scheduler.running and not scheduler.waiting
    assert scheduler.cache.usage() == 0


@pytest.mark.parametrize("speculation", [False, True], ids=["plain", "ngram"])
def test_interrupts_of_generation(speculation: bool, tiny: Path) -> None:
    """Wherever Ctrl-C hits, the next call works."""
    config = {"speculative_config": {"method": "ngram", "num_speculative_tokens": 3}} if speculation else {}
    llm = load(tiny, max_num_batched_tokens=32, max_num_seqs=3, **config)
    expected = answers(llm)
    line, count = 1, 0
    while interrupted(lambda: answers(llm), line, "modelhost.engine", "modelhost_cpu", "modelhost_ngram"):
        assert answers(llm) == expected, f"after an interrupt before line {line}"
        check_idle(llm)
        line, count = line + 1 + line // 40, count + 1
    assert count > 100


def test_interrupts_of_a_stream(tiny: Path) -> None:
    llm = load(tiny)
    expected = answers(llm)
    line = 1
    while interrupted(lambda: list(llm.stream(PROMPTS[1], GREEDY)), line, "modelhost.engine", "modelhost_cpu"):
        assert answers(llm) == expected, f"after an interrupt before line {line}"
        check_idle(llm)
        line += 1 + line // 8


def test_interrupts_of_loading(tmp_path: Path) -> None:
    """Kernels are compiled on the way; those that are there already are used by the next attempt."""
    path = write_tiny_model(tmp_path / "model", hidden_size=28, intermediate_size=36, num_attention_heads=2)
    line, count = 100, 0
    while interrupted(lambda: load(path).model.engine, line, "modelhost.engine", "modelhost_cpu"):
        line, count = line + line // 4, count + 1
    assert count > 10
    assert answers(load(path)) == answers(load(path, threads=1))


def test_two_models_in_two_threads(tmp_path: Path) -> None:
    """They are loaded at once, share the threads that compute, and answer at once."""
    sizes = ({"hidden_size": 48, "intermediate_size": 52}, {"hidden_size": 64, "intermediate_size": 76})
    paths = [write_tiny_model(tmp_path / str(n), seed=n, **fields) for n, fields in enumerate(sizes)]
    barrier = threading.Barrier(len(paths))

    def work(path: Path) -> list[list[list[int]]]:
        barrier.wait()
        llm = load(path)
        barrier.wait()
        return [answers(llm) for _ in range(20)]

    with ThreadPoolExecutor(len(paths)) as pool:
        found = list(pool.map(work, paths))
    for path, many in zip(paths, found, strict=True):
        assert many == [answers(load(path))] * 20


def in_a_fork(function: Callable[[], Any], seconds: float = 60.0) -> Any:
    """What ``function`` returns in a forked child.

    Raises:
        AssertionError: the child died or took too long.
    """

    def child(end: Connection) -> None:
        end.send(function())

    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=child, args=(theirs,))
    process.start()
    theirs.close()
    try:
        assert ours.poll(seconds), f"the child gave no answer within {seconds:.0f} s"
        return ours.recv()
    except EOFError:
        process.join()
        raise AssertionError(f"the child ended with exit code {process.exitcode}") from None
    finally:
        process.kill()
        process.join()


@linux_only
def test_a_fork_after_a_step(tiny: Path) -> None:
    llm = load(tiny)
    stream = llm.stream(PROMPTS[0], GREEDY)
    next(stream)
    rest = in_a_fork(lambda: [output.outputs[0].token_ids for output in stream][-1])
    assert rest == list(stream)[-1].outputs[0].token_ids
    expected = answers(llm)
    assert in_a_fork(lambda: answers(llm)) == expected
    assert in_a_fork(lambda: answers(load(tiny))) == expected
    assert in_a_fork(lambda: in_a_fork(lambda: answers(llm))) == expected
    assert answers(llm) == expected


@linux_only
def test_forks_while_another_thread_computes(tiny: Path) -> None:
    """The child may find the pool of threads in the middle of a step of another model."""
    llm, other = load(tiny), load(tiny)
    expected, stop = answers(llm), threading.Event()

    def work() -> None:
        while not stop.is_set():
            answers(other)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        assert [in_a_fork(lambda: answers(llm)) for _ in range(10)] == [expected] * 10
    finally:
        stop.set()
        thread.join()
    assert answers(llm) == expected


@linux_only
@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_models_that_are_made_again_and_again(dtype: str, tmp_path: Path) -> None:
    """20 times 8 million parameters: memory and threads stay what they were after the second time."""
    path = write_tiny_model(tmp_path / "model", vocab_size=16384, hidden_size=256, max_position_embeddings=512)
    memory, threads = [], []
    for _ in range(20):
        llm = load(path, dtype=dtype)
        answers(llm)
        del llm
        memory.append(resident_bytes())
        threads.append(thread_count())
    assert max(memory[2:]) - memory[1] < 2 << 20, f"grew from {memory[1]:,} to {max(memory[2:]):,} bytes"
    assert len(set(threads)) == 1
