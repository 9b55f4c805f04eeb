"""What this machine can do at most: bytes read from memory and multiplications for each second.

    python benchmarks/machine_limits.py [--threads N ...] [--megabytes N ...] [--json]

Every way that is installed is tried several times; the fastest counts. Decoding reads all weights for each step, so the
first limit divided by the bytes of the weights bounds its steps per second. How fast memory is read depends on how much
of it is read again and again: the processor's last cache may hold a small model. A prompt of many tokens is bound by
the second limit. Add a way to READERS or MULTIPLIERS to raise a limit that something reaches.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Words = npt.NDArray[np.int64]

REPEATS = 5
READ_SECONDS = 0.5
"""Least time to spend on each way to read."""
LARGE = 2048
"""Megabytes that exceed what caches hold."""
MATRIX = 4096
"""Rows and columns of the square matrices; weights are of this order."""
READERS: dict[str, Callable[[Words], object]] = {
    "sum": lambda words: words.sum(),
    "max": lambda words: words.max(),
    "or": lambda words: _or(words),
}
"""Ways for one thread to read an array once. NumPy releases the interpreter while it does."""


def _or(words: Words) -> object:
    import numpy as np

    return np.bitwise_or.reduce(words)


def numpy_float32() -> Callable[[], object]:
    """NumPy's BLAS."""
    import numpy as np

    a, b = (np.full((MATRIX, MATRIX), value, np.float32) for value in (0.5, 0.25))
    return lambda: a @ b


def torch_matrices(dtype: str) -> Callable[[], object]:
    """PyTorch's product of matrices of ``dtype``; int8 accumulates in int32."""
    import torch

    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    a, b = (torch.full((MATRIX, MATRIX), value).to(getattr(torch, dtype)) for value in (1, 2))
    return (lambda: torch._int_mm(a, b)) if dtype == "int8" else (lambda: a @ b)


MULTIPLIERS: dict[str, tuple[str, Callable[[], Callable[[], object]]]] = {
    "NumPy float32": ("numpy", numpy_float32),
    "PyTorch float32": ("torch", lambda: torch_matrices("float32")),
    "PyTorch bfloat16": ("torch", lambda: torch_matrices("bfloat16")),
    "PyTorch int8": ("torch", lambda: torch_matrices("int8")),
}
"""Name -> the module it needs, and what makes a function that multiplies two square matrices of MATRIX rows."""


def read_bandwidth(threads: int, size: int) -> dict[str, float]:
    """Bytes for each second that ``threads`` threads read together, for each way, from ``size`` bytes in all."""
    import numpy as np

    arrays = [np.full(size // threads // 8, 1, np.int64) for _ in range(threads)]
    total = sum(array.nbytes for array in arrays)
    return {name: total / _least_seconds(partial(_together, read, arrays)) for name, read in READERS.items()}


def _least_seconds(measure: Callable[[], float]) -> float:
    found: list[float] = []
    end = time.monotonic() + READ_SECONDS
    while len(found) < REPEATS or time.monotonic() < end:
        found.append(measure())
    return min(found)


def _together(read: Callable[[Words], object], arrays: list[Words]) -> float:
    """Seconds until every array has been read by a thread of its own."""
    start = threading.Barrier(len(arrays) + 1)

    def work(array: Words) -> None:
        start.wait()
        read(array)

    workers = [threading.Thread(target=work, args=(array,)) for array in arrays]
    for worker in workers:
        worker.start()
    start.wait()
    started = time.perf_counter()
    for worker in workers:
        worker.join()
    return time.perf_counter() - started


def multiplication_rate() -> dict[str, float]:
    """Additions and multiplications for each second, for each way whose module is installed."""
    return {name: _rate(make()) for name, (module, make) in MULTIPLIERS.items() if find_spec(module)}


def _rate(multiply: Callable[[], object]) -> float:
    multiply()
    best = float("inf")
    for _ in range(REPEATS):
        started = time.perf_counter()
        multiply()
        best = min(best, time.perf_counter() - started)
    return 2 * MATRIX**3 / best


def limits(threads: int, megabytes: Sequence[int] = (LARGE,)) -> dict[str, Any]:
    """Both limits with ``threads`` threads, measured in a process of its own.

    Args:
        megabytes: sizes of what is read.

    Returns:
        ``threads``; ``read_bytes_per_second`` by megabytes as text, and ``operations_per_second``: each with the
        ``best`` value and one for each way.
    """
    count = str(threads)
    environment = {**os.environ, "OMP_NUM_THREADS": count, "OPENBLAS_NUM_THREADS": count, "MKL_NUM_THREADS": count}
    command = [sys.executable, __file__, "--child", "--threads", count, "--megabytes", *map(str, megabytes)]
    done = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _measured(threads: int, megabytes: Sequence[int]) -> dict[str, Any]:
    return {
        "threads": threads,
        "read_bytes_per_second": {str(size): _with_best(read_bandwidth(threads, size << 20)) for size in megabytes},
        "operations_per_second": _with_best(multiplication_rate()),
    }


def _with_best(rates: dict[str, float]) -> dict[str, float]:
    return {"best": max(rates.values()), **rates}


def _lines(found: dict[str, Any]) -> Iterator[str]:
    yield f"{found['threads']} threads"
    for size, rates in found["read_bytes_per_second"].items():
        for name, rate in rates.items():
            yield f"  read {size} MB, {name:<18} {rate / 1e9:8.1f} GB/s"
    for name, rate in found["operations_per_second"].items():
        yield f"  multiply, {name:<18} {rate / 1e9:8.0f} GFLOP/s"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, nargs="+", default=sorted({1, len(os.sched_getaffinity(0))}))
    parser.add_argument("--megabytes", type=int, nargs="+", default=[LARGE], help="to read, again and again")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(_measured(options.threads[0], options.megabytes)))
        return
    found = [limits(threads, options.megabytes) for threads in options.threads]
    print(json.dumps(found, indent=2) if options.json else "\n".join(line for one in found for line in _lines(one)))


if __name__ == "__main__":
    main()
