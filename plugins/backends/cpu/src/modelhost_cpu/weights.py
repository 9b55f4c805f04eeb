"""Parameters in the memory layout of the kernels."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from modelhost.api.backend import Parameter, Weight

from .encodings.packing import ROWS, Packing
from .encodings.registry import packing_for, packings
from .language.types import ptr
from .native.kernel import Kernel, KernelSpec
from .native.pool import aligned_bytes

if TYPE_CHECKING:
    import numpy.typing as npt

    from .native.compiler import Compiler
    from .native.pool import ThreadPool

_GROUPS_OF_A_CHUNK = 8


@dataclass(frozen=True, slots=True)
class StoredWeight:
    """A loaded parameter.

    Attributes:
        shape: logical.
        packing: of a matrix or a stack of matrices; ``None`` for vectors and integers, which are values in order.
        memory: that it lies in.
        address: of the first byte.
    """

    shape: tuple[int, ...]
    packing: Packing | None
    memory: npt.NDArray[np.uint8]
    address: int

    @property
    def nbytes(self) -> int:
        """Bytes that it takes."""
        return int(self.memory.nbytes)

    @property
    def group_bytes(self) -> int:
        """Bytes of sixteen rows."""
        return group_bytes(self.packing, self.shape[-1]) if self.packing is not None else 0

    @property
    def matrix_bytes(self) -> int:
        """Bytes of one matrix of a stack."""
        return -(-self.shape[-2] // ROWS) * self.group_bytes


def group_bytes(packing: Packing, columns: int) -> int:
    """Bytes of sixteen rows of ``columns`` columns."""
    return -(-columns // packing.block) * packing.block_bytes


def _plain(parameter: Parameter) -> bool:
    """Whether it is kept as values in order: vectors and integers."""
    return len(parameter.sizes) < 2 or parameter.dtype == "int32"


def stored_bytes(parameter: Parameter, encoding: str, exact: bool) -> int:
    """Bytes that a parameter takes once loaded."""
    shape = parameter.sizes
    if _plain(parameter):
        return 4 * prod(shape)
    groups = prod(shape[:-2]) * -(-shape[-2] // ROWS)
    return groups * group_bytes(packing_for(encoding, exact), shape[-1])


def pack_groups(k: Kernel, packing: Packing, blocks: int) -> None:
    """Kernel: pack groups of rows. Slots: ``rows`` (addresses, int64), ``destination``."""
    rows, destination = k.pointer("rows"), k.pointer("destination")
    first, last = k.span(k.chunk, _GROUPS_OF_A_CHUNK)
    with k.loop(first, last) as group:
        sources = [k.load(ptr, rows, (group * ROWS + row) * 8, align=8) for row in range(ROWS)]
        target = destination + group * (blocks * packing.block_bytes)
        with k.loop(0, blocks) as block:
            offset = block * packing.source_bytes
            packing.pack(k, [source + offset for source in sources], target + block * packing.block_bytes)


class WeightStore:
    """Loads parameters: packs matrices on all threads, straight from where they are mapped.

    Args:
        compiler: of the packing kernels.
        pool: that they run on.
        exact: keep encodings that have no packing as float32 instead of bfloat16.
    """

    def __init__(self, compiler: Compiler, pool: ThreadPool, exact: bool) -> None:
        self._compiler = compiler
        self._pool = pool
        self._exact = exact

    def store(self, parameter: Parameter, weight: Weight) -> StoredWeight:
        """The parameter in its final layout."""
        if _plain(parameter):
            values = np.ascontiguousarray(weight.dequantize(), parameter.dtype).view(np.uint8).reshape(-1)
            memory = aligned_bytes(max(64, values.nbytes))[: values.nbytes]
            memory[:] = values
            return StoredWeight(parameter.sizes, None, memory, memory.ctypes.data)
        return self._matrix(parameter, weight)

    def _matrix(self, parameter: Parameter, weight: Weight) -> StoredWeight:
        packing = packing_for(weight.encoding, self._exact)
        shape = parameter.sizes
        blocks = np.ascontiguousarray(weight.blocks)
        if weight.encoding not in packings():
            values = weight.dequantize()
            blocks = (values if packing.name == "f32" else _bfloat16(values)).view(np.uint8)
        nbytes = stored_bytes(parameter, weight.encoding, self._exact)
        memory = aligned_bytes(nbytes)
        rows, zeros = _row_addresses(blocks.reshape(-1, shape[-2], blocks.shape[-1]))
        count = -(-shape[-1] // packing.block)
        self._pack(packing, count, rows, memory)
        del zeros
        return StoredWeight(shape, packing, memory, memory.ctypes.data)

    def _pack(self, packing: Packing, blocks: int, rows: npt.NDArray[np.int64], memory: npt.NDArray[np.uint8]) -> None:
        spec = KernelSpec(pack_groups, (("packing", packing), ("blocks", blocks)), ("work", "rows", "destination"))
        address = self._compiler.kernels([spec])[spec]
        slots = np.zeros(3, np.int64)
        recipes = np.zeros((3, 4), np.int64)
        recipes[:, 3] = rows.size // ROWS, rows.ctypes.data, memory.ctypes.data
        ops = np.array([[address, slots.ctypes.data, _GROUPS_OF_A_CHUNK, 1]], np.int64)
        zero = np.zeros(1, np.int64)
        self._pool.run(ops, recipes, slots, zero, zero)


def _row_addresses(blocks: npt.NDArray[np.uint8]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8]]:
    """Address of every row ``[matrices, rows, bytes]``, the rows of each matrix filled up to whole groups with a row of
    zeros; and that row, which must be kept while the addresses are used.
    """
    matrices, rows, nbytes = blocks.shape
    padded = -(-rows // ROWS) * ROWS
    zeros = np.zeros(nbytes, np.uint8)
    addresses = np.full((matrices, padded), zeros.ctypes.data, np.int64)
    addresses[:, :rows] = (
        blocks.ctypes.data + np.arange(matrices * rows, dtype=np.int64).reshape(matrices, rows) * nbytes
    )
    return addresses, zeros


def _bfloat16(values: npt.NDArray[np.float32]) -> npt.NDArray[np.uint16]:
    """Bits of the nearest bfloat16, ties to even."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    return ((bits + (((bits >> 16) & 1) + 0x7FFF)) >> 16).astype(np.uint16)
