"""Bits of quantised numbers in memory: planes of 1, 2, 4 or 8 bits, each a few vectors of 64 bytes for 32 columns.

The 32 columns are eight quads of four columns; a vector holds bytes ``[16 rows][4 columns]``. A plane of ``w`` bits is
``w`` vectors; quad ``j`` is in vector ``j % w``, shifted left by ``w * (j // w)`` in every byte.
"""

from __future__ import annotations

from collections.abc import Iterator

from modelhost_cpu.language.function import Function
from modelhost_cpu.language.types import i32, vector
from modelhost_cpu.language.value import Value

from .packing import ROWS

QUADS = 8
"""Quads in 32 columns."""
VECTOR_BYTES = 4 * ROWS


def byte_mask(value: int) -> int:
    """``value`` in every byte of an ``i32``."""
    mask = value * 0x01010101
    return mask - (1 << 32) if mask >> 31 else mask


def _shifted(x: Value, left: int) -> Value:
    return x << left if left > 0 else x >> -left if left < 0 else x


def load_quads(k: Function, planes: Value, widths: tuple[int, ...], lanes: int = ROWS) -> Iterator[Value]:
    """The quads in order, ``lanes x i32`` with an unsigned number in every byte.

    Args:
        planes: address of the planes, the lowest bits first; that of the first row wanted.
        widths: bits of each plane.
        lanes: rows.
    """
    vectors = [k.load(vector(i32, lanes), planes, VECTOR_BYTES * index) for index in range(sum(widths))]
    for quad in range(QUADS):
        low, result = 0, None
        for width in widths:
            source = vectors[low + quad % width]
            bits = _shifted(source, low - width * (quad // width))
            bits = bits if width == 8 else bits & byte_mask(((1 << width) - 1) << low)
            result = bits if result is None else result | bits
            low += width
        if result is None:
            raise ValueError("numbers have at least one plane")
        yield result


def load_row(k: Function, planes: Value, widths: tuple[int, ...]) -> Value:
    """The quads of one row, ``8 x i32``; see :func:`store_quads`."""
    low, result = 0, k.zero(vector(i32, QUADS))
    for width in widths:
        source = k.zero(vector(i32, width))
        for lane in range(width):
            source = source.with_lane(lane, k.load(i32, planes, VECTOR_BYTES * (low + lane)))
        shifts = k.vector(i32, [width * (quad // width) for quad in range(QUADS)])
        bits = source.shuffle([quad % width for quad in range(QUADS)]) >> shifts
        result = result | ((bits & byte_mask((1 << width) - 1)) << low)
        low += width
    return result


def store_quads(k: Function, quads: Value, planes: Value, widths: tuple[int, ...]) -> None:
    """Write one row.

    Args:
        quads: ``8 x i32``, an unsigned number in every byte.
        planes: address of the row in the first vector.
        widths: bits of each plane, the lowest bits first.
    """
    low = 0
    for width in widths:
        bits = _shifted(quads, -low) & byte_mask((1 << width) - 1)
        parts = [bits.shuffle(range(start, start + width)) << start for start in range(0, QUADS, width)]
        merged = parts[0]
        for part in parts[1:]:
            merged = merged | part
        for lane in range(width):
            k.store(merged.lane(lane), planes, VECTOR_BYTES * (low + lane))
        low += width
