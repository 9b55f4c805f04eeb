"""Parameters in the memory layout of the kernels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from modelhost.api import WeightError
from modelhost.api.backend import Parameter, Weight

from .encodings.packing import ROWS, Packing
from .encodings.registry import packing_for, source_of
from .language.types import i8
from .native.kernel import Kernel, KernelSpec
from .native.memory import HugePageAllocator

if TYPE_CHECKING:
    import numpy.typing as npt

    from .native.compiler import Compiler
    from .native.pool import ThreadPool

    Bytes = npt.NDArray[np.uint8]
    Int = npt.NDArray[np.int64]

_GROUPS_OF_A_CHUNK = 8
_VECTOR_BYTES = 64
_SLAB_BYTES = 16 << 20
_SLAB_VALUES = 4 << 20
"""Values of an encoding without a packing that are decoded at a time."""


@dataclass(frozen=True, slots=True)
class StoredWeight:
    """A loaded parameter.

    Attributes:
        shape: logical.
        packing: of a matrix or a stack of matrices; ``None`` for vectors and integers, which are values in order,
            filled up with zeros to a multiple of 64 bytes.
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
        return -(-4 * prod(shape) // _VECTOR_BYTES) * _VECTOR_BYTES
    groups = prod(shape[:-2]) * -(-shape[-2] // ROWS)
    return groups * group_bytes(packing_for(encoding, exact), shape[-1])


def pack_groups(k: Kernel, packing: Packing, source: str, columns: int) -> None:
    """Kernel: pack groups of rows. Slots: ``rows`` (addresses, int64), ``destination``, ``bad`` (a byte to set)."""
    rows, destination = k.pointer("rows"), k.pointer("destination")
    first, last = k.span(k.chunk, _GROUPS_OF_A_CHUNK)
    with k.loop(first, last) as group:
        target = destination + group * group_bytes(packing, columns)
        bad = packing.pack(k, source, rows + group * (8 * ROWS), columns, target)
        with k.when(bad):
            k.store(k.constant(i8, 1), k.pointer("bad"))


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
        self._allocator = HugePageAllocator()

    def store(self, parameter: Parameter, weight: Weight) -> StoredWeight:
        """The parameter in its final layout. The pages of the file that ``weight`` lies in are released.

        Raises:
            WeightError: a scale of a block is NaN or infinite.
        """
        stored = self._values(parameter, weight) if _plain(parameter) else self._matrix(parameter, weight)
        weight.release()
        return stored

    def _values(self, parameter: Parameter, weight: Weight) -> StoredWeight:
        values = np.ascontiguousarray(weight.dequantize(), parameter.dtype).view(np.uint8).reshape(-1)
        memory = self._allocator.take(-(-values.nbytes // _VECTOR_BYTES) * _VECTOR_BYTES)
        memory[: values.nbytes] = values
        return StoredWeight(parameter.sizes, None, memory, memory.ctypes.data)

    def _matrix(self, parameter: Parameter, weight: Weight) -> StoredWeight:
        packing, source = packing_for(weight.encoding, self._exact), source_of(weight.encoding)
        shape = parameter.sizes
        memory = self._allocator.take(stored_bytes(parameter, weight.encoding, self._exact))
        slabs = _encoded(weight) if source == weight.encoding else _decoded(weight)
        names = ("work", "rows", "destination", "bad")
        constants = (("packing", packing), ("source", source), ("columns", shape[-1]))
        spec, end = KernelSpec(pack_groups, constants, names), 0
        for rows in slabs:
            start, end = end, end + len(rows.addresses) // ROWS * group_bytes(packing, shape[-1])
            if not self._pack(spec, rows.addresses, memory[start:end]):
                raise WeightError(_non_finite(weight))
        return StoredWeight(shape, packing, memory, memory.ctypes.data)

    def _pack(self, spec: KernelSpec, rows: Int, memory: Bytes) -> bool:
        """Whether all scales are finite."""
        bad = np.zeros(1, np.uint8)
        address = self._compiler.kernels([spec])[spec]
        slots = np.zeros(len(spec.slots), np.int64)
        recipes = np.zeros((len(spec.slots), 4), np.int64)
        recipes[:, 3] = len(rows) // ROWS, rows.ctypes.data, memory.ctypes.data, bad.ctypes.data
        ops = np.array([[address, slots.ctypes.data, _GROUPS_OF_A_CHUNK, 1]], np.int64)
        zero = np.zeros(1, np.int64)
        self._pool.run(ops, recipes, slots, zero, zero)
        return not bad[0]


@dataclass(frozen=True, slots=True)
class _Rows:
    """Rows to pack, whole groups.

    Attributes:
        addresses: int64 ``[rows]``.
        memory: arrays that they lie in.
    """

    addresses: Int
    memory: tuple[Bytes, ...]


def _encoded(weight: Weight) -> Iterator[_Rows]:
    """Rows where they are. Those of a matrix come in slabs, whose pages are released once they are packed."""
    if len(weight.shape) == 2 and len(weight.pieces()) == 1:
        step = max(1, _SLAB_BYTES // (ROWS * max(1, weight.blocks.shape[-1]))) * ROWS
        for first in range(0, weight.shape[0], step):
            slab = weight.rows(slice(first, first + step))
            yield _together(slab)
            slab.release()
    else:
        yield _together(weight)


def _together(weight: Weight) -> _Rows:
    """All rows, where they are."""
    blocks = [piece.blocks for piece in weight.pieces()]
    blocks = [array if array.strides[-1] == 1 else np.ascontiguousarray(array) for array in blocks]
    every = np.concatenate([_row_addresses(array).reshape(-1) for array in blocks])
    return _whole_groups(every.reshape(-1, weight.shape[-2]), blocks)


def _decoded(weight: Weight) -> Iterator[_Rows]:
    """Some rows after the other, decoded to float32."""
    rows, columns = weight.shape[-2:]
    step = max(1, _SLAB_VALUES // (ROWS * columns)) * ROWS
    for matrix in range(prod(weight.shape[:-2])):
        for first in range(0, rows, step):
            start = matrix * rows + first
            values = _values_between(weight, start, start + min(step, rows - first)).view(np.uint8)
            yield _whole_groups(_row_addresses(values)[None], [values])


def _values_between(weight: Weight, first: int, last: int) -> npt.NDArray[np.float32]:
    """Rows ``first`` to ``last`` of all matrices that follow each other."""
    parts, end = [], 0
    for piece in weight.pieces():
        blocks = piece.blocks.reshape(-1, piece.blocks.shape[-1])
        start, end = end, end + len(blocks)
        if start < last and first < end:
            parts.append(piece.decode(blocks[max(0, first - start) : last - start]))
    return np.ascontiguousarray(np.concatenate(parts), np.float32)


def _whole_groups(addresses: Int, memory: Sequence[Bytes]) -> _Rows:
    """Addresses ``[matrices, rows]``, those of each matrix filled up to whole groups with that of a row of zeros."""
    matrices, rows = addresses.shape
    zeros = np.zeros(memory[0].shape[-1], np.uint8)
    filled = np.full((matrices, -(-rows // ROWS) * ROWS), zeros.ctypes.data, np.int64)
    filled[:, :rows] = addresses
    return _Rows(filled.reshape(-1), (zeros, *memory))


def _row_addresses(blocks: Bytes) -> Int:
    """Address of every row ``[*shape[:-1]]``."""
    addresses = np.array(blocks.ctypes.data, np.int64)
    for size, stride in zip(blocks.shape[:-1], blocks.strides[:-1], strict=True):
        addresses = addresses[..., None] + np.arange(size) * stride
    return addresses


def _non_finite(weight: Weight) -> str:
    """What to say of a weight that has a scale that is NaN or infinite."""
    what = f"{weight.encoding} tensor {weight.name!r} has a block with a scale that is NaN or infinite"
    row = 0
    for piece in weight.pieces():
        for blocks in piece.blocks.reshape(-1, piece.blocks.shape[-1]):
            found = np.flatnonzero(~np.isfinite(piece.decode(blocks[None])))
            if found.size:
                what += f", in row {row} from column {found[0]} on"
                return f"{what}. The file is corrupt: download or convert it again"
            row += 1
    return f"{what}. The file is corrupt: download or convert it again"
