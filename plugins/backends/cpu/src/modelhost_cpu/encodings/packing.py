"""What a kernel needs to know about an encoding."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from modelhost_cpu.language.function import Function
from modelhost_cpu.language.types import ptr
from modelhost_cpu.language.value import Value

ROWS = 16
"""Rows of a matrix that lie interleaved."""


class Packing(Protocol):
    """An encoding as the kernels read it.

    A packed matrix is a sequence of groups of :data:`ROWS` rows, the last one filled up with rows of zeros. A group
    consists of blocks along the columns, one after the other; a block of one or more parts that are decoded alike.
    """

    @property
    def name(self) -> str:
        """Unique; part of kernels' recipes."""
        ...

    @property
    def block(self) -> int:
        """Columns in a block."""
        ...

    @property
    def part(self) -> int:
        """Columns that one call of :meth:`columns` decodes; divides :attr:`block`."""
        ...

    @property
    def block_bytes(self) -> int:
        """Bytes of a block of a whole group."""
        ...

    def pack(self, k: Function, source: str, rows: Value, columns: int, destination: Value) -> Value:
        """Write the code that packs a group.

        Args:
            source: encoding of the rows, the packing's own or one that it can convert.
            rows: address of the addresses of the sixteen rows as a checkpoint has them.
            columns: of a row.
            destination: of the group's blocks.

        Returns:
            ``i1``, set if a scale is NaN or infinite.
        """
        ...

    def columns(self, k: Function, block: Value, part: Value | int = 0) -> Iterator[tuple[int, Value]]:
        """Write the code that decodes a part of the block at ``block``.

        Yields:
            number of each column in the part and its ``16 x f32``, in order.
        """
        ...

    def row(self, k: Function, block: Value, row: Value, part: Value | int = 0) -> Value:
        """Write the code that decodes one row of a part, number ``row`` of its group: ``part x f32``."""
        ...


def row_address(k: Function, rows: Value, row: Value | int) -> Value:
    """The address of a row of the group that is being packed."""
    return k.load(ptr, rows + row * 8, align=8)


def decode_columns(k: Function, packing: Packing, group: Value, columns: int, panel: Value) -> None:
    """Write the code that decodes whole blocks of a group, at least ``columns``, to ``panel``: ``[columns][16] f32``.

    ``panel`` is aligned to 64 bytes.
    """
    parts = packing.block // packing.part
    with k.loop(0, -(-columns // packing.block)) as block, k.loop(0, parts) as part:
        target = panel + (block * packing.block + part * packing.part) * (4 * ROWS)
        for column, values in packing.columns(k, group + block * packing.block_bytes, part):
            k.store(values, target, column * 4 * ROWS, align=64)


def padded_columns(packing: Packing, columns: int) -> int:
    """``columns`` rounded up to whole blocks."""
    return -(-columns // packing.block) * packing.block
