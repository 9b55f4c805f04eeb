"""Choosing tokens by rows of logits: one native call on all threads for all rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .kernels.logit_draw import draw_token, weigh_blocks
from .kernels.logit_memory import BLOCK, LARGEST, LAST, LEAST, PARAMETER_BYTES, SCALE, SCRATCH, SHARE, SLOTS, row_bytes
from .kernels.logit_nucleus import bucket_range, choose_bucket, collect_bucket, fill_buckets, last_of_nucleus
from .kernels.logit_order import block_keys, bound_of_top, choose_top, collect_top, first_greatest
from .native.kernel import Kernel, KernelSpec
from .native.memory import aligned_bytes

if TYPE_CHECKING:
    import numpy.typing as npt

    from .native.compiler import Compiler
    from .native.pool import ThreadPool

    Float = npt.NDArray[np.float32]
    Double = npt.NDArray[np.float64]
    Long = npt.NDArray[np.int64]

_ARGMAX = (block_keys, first_greatest)
_TOP_K = (block_keys, bound_of_top, collect_top, choose_top)
_DRAW = (weigh_blocks, draw_token)
_NUCLEUS = (weigh_blocks, bucket_range, fill_buckets, choose_bucket, collect_bucket, last_of_nucleus)
_OF_BLOCKS = frozenset({block_keys, collect_top, weigh_blocks, fill_buckets, collect_bucket})
"""Kernels whose chunks are blocks of rows; those of the others are rows."""
_MEMORY_BYTES = 8 << 20
"""Rows that need more are computed in several calls."""
_PARAMETERS = np.dtype(
    {
        "names": ["share", "scale", "least", "last"],
        "formats": ["f8", "f4", "f4", "i8"],
        "offsets": [SHARE, SCALE, LEAST, LAST],
        "itemsize": PARAMETER_BYTES,
    }
)
_LOG2_E = 1.4426950408889634

KERNELS = tuple(KernelSpec(emit, (), SLOTS) for emit in dict.fromkeys((*_ARGMAX, *_TOP_K, *_DRAW, *_NUCLEUS)))
"""All kernels of sampling."""


def logit_memory_bytes(rows: int, size: int) -> int:
    """The most memory that choosing tokens by ``rows`` rows of ``size`` logits takes."""
    nbytes = row_bytes(-(-size // BLOCK), lists=True)
    return min(rows, _rows_at_once(nbytes)) * nbytes


def _rows_at_once(nbytes: int) -> int:
    return max(1, _MEMORY_BYTES // nbytes)


class CpuLogitOps:
    """See :class:`modelhost.api.backend.LogitOps`. Kernels are compiled when they are first needed.

    A row's result does not depend on the number of threads. Not thread-safe: one thread calls it.

    Args:
        compiler: of the kernels.
        pool: that they run on.
    """

    def __init__(self, compiler: Compiler, pool: ThreadPool) -> None:
        self._compiler = compiler
        self._pool = pool
        pool.reserve_scratch(SCRATCH)
        self._logit_memory = aligned_bytes(0)
        self._logit_programs: dict[tuple[Callable[[Kernel], None], ...], _Program] = {}

    def argmax(self, rows: Sequence[Float]) -> Long:
        result = np.empty(len(rows), np.int64)
        self._choose(_ARGMAX, rows, result)
        return result

    def top_k(self, rows: Sequence[Float], count: int) -> Long:
        ids, keys = np.empty((len(rows), count), np.int64), np.empty((len(rows), count), np.int32)
        if not count:
            return ids
        self._choose(_TOP_K, rows, ids, keys=keys)
        order = np.argsort(~keys, axis=1, kind="stable")
        return ids[np.arange(len(rows))[:, None], order]

    def nucleus(self, rows: Sequence[Float], temperatures: Double, least: Float, top_ps: Double) -> Long:
        result = np.empty(len(rows), np.int64)
        self._choose(_NUCLEUS, rows, result, _parameters(temperatures, least, top_ps))
        return result

    def draw(self, rows: Sequence[Float], temperatures: Double, least: Float, last: Long, uniforms: Double) -> Long:
        result = np.empty(len(rows), np.int64)
        self._choose(_DRAW, rows, result, _parameters(temperatures, least, uniforms, last))
        return result

    def _choose(
        self,
        emits: tuple[Callable[[Kernel], None], ...],
        rows: Sequence[Float],
        results: Long,
        parameters: npt.NDArray[np.void] | None = None,
        keys: npt.NDArray[np.int32] | None = None,
    ) -> None:
        """Run kernels one after the other over all rows, as many rows at a time as there is memory for."""
        if not len(rows):
            return
        program = self._logit_programs.get(emits)
        if program is None:
            program = self._logit_programs[emits] = _Program(self._compiler, emits)
        size = rows[0].size
        blocks = -(-size // BLOCK)
        nbytes = row_bytes(blocks, lists=emits in (_TOP_K, _NUCLEUS))
        step = _rows_at_once(nbytes)
        if min(step, len(rows)) * nbytes > self._logit_memory.nbytes:
            self._logit_memory = aligned_bytes(min(step, len(rows)) * nbytes)
        row_addresses = np.array([_address(row) for row in rows], np.int64)
        count = results.size // len(rows)
        per_row = (row_addresses, parameters, keys, results)
        addresses, given, keyed, written = (0 if array is None else _address(array) for array in per_row)
        for first in range(0, len(rows), step):
            numbers = (
                min(step, len(rows) - first),
                addresses + first * 8,
                size,
                blocks,
                _address(self._logit_memory),
                nbytes,
                given + first * PARAMETER_BYTES,
                count,
                keyed + first * count * 4,
                written + first * count * 8,
            )
            program.run(self._pool, numbers, blocks)


def _address(array: npt.NDArray[Any]) -> int:
    """Quicker than ``array.ctypes.data``."""
    address: int = array.__array_interface__["data"][0]
    return address


def _parameters(temperatures: Double, least: Float, shares: Double, last: Long | None = None) -> npt.NDArray[np.void]:
    """What kernels read of every row."""
    parameters = np.zeros(len(temperatures), _PARAMETERS)
    parameters["share"], parameters["least"] = shares, least
    parameters["scale"] = np.minimum(_LOG2_E / temperatures, LARGEST)
    parameters["last"] = np.iinfo(np.int32).max if last is None else last
    return parameters


class _Program:
    """Kernels with the same slots, as the arrays that the native driver reads."""

    def __init__(self, compiler: Compiler, emits: Sequence[Callable[[Kernel], None]]) -> None:
        specs = [KernelSpec(emit, (), SLOTS) for emit in emits]
        addresses = compiler.kernels(specs)
        self._slots = np.zeros(len(SLOTS), np.int64)
        self._recipes = np.zeros((len(SLOTS), 4), np.int64)
        self._zero = np.zeros(1, np.int64)
        self._ops = np.array([[addresses[spec], self._slots.ctypes.data, 1, 1] for spec in specs], np.int64)
        self._of_blocks = [place for place, emit in enumerate(emits) if emit in _OF_BLOCKS]
        self._blocks = 1

    def run(self, pool: ThreadPool, numbers: Sequence[int], blocks: int) -> None:
        """Run all kernels. ``numbers`` are the contents of the slots."""
        self._recipes[:, 3] = numbers
        if blocks != self._blocks:
            self._ops[self._of_blocks, 3] = self._blocks = blocks
        pool.run(self._ops, self._recipes, self._slots, self._zero, self._zero)
