"""What a kernel needs to know about an encoding."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from modelhost_cpu.language.function import Function
from modelhost_cpu.language.value import Value

ROWS = 16
"""Rows of a matrix that lie interleaved."""


class Packing(Protocol):
    """An encoding as the kernels read it.

    A packed matrix is a sequence of groups of :data:`ROWS` rows, the last one filled up with rows of zeros. A group
    consists of blocks along the columns, one after the other.

    Attributes:
        name: unique; part of kernels' recipes.
        block: columns in a block.
        block_bytes: bytes of a block of a whole group.
        source_bytes: bytes of a block of one row in a checkpoint.
    """

    name: str
    block: int
    block_bytes: int
    source_bytes: int

    def pack(self, k: Function, rows: Sequence[Value], destination: Value) -> None:
        """Write the code that packs one block: from the addresses of its rows' blocks to ``destination``."""
        ...

    def columns(self, k: Function, block: Value) -> Iterator[tuple[int, Value]]:
        """Write the code that decodes the block at ``block``: number of each column and its ``16 x f32``, in order."""
        ...
