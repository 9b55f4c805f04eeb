"""Rows of float32 as 8-bit integers with a scale for every 32 columns.

A record of 64 bytes is 32 integers, their scale, and multiples of their sum and of the sums of their halves, which
products with weights that have an offset or a minimum start from.
"""

from __future__ import annotations

from dataclasses import replace

from modelhost_cpu.language.function import Function
from modelhost_cpu.language.types import f32, i8, i32, vector
from modelhost_cpu.language.value import Value
from modelhost_cpu.native.kernel import Kernel
from modelhost_cpu.program.builder import ProgramBuilder
from modelhost_cpu.program.rows import RowSet
from modelhost_cpu.program.views import Slot, View

from .row_number import row_number

COLUMNS = 32
"""Columns of a record."""
RECORD_BYTES = 64
SCALE = 32
"""Where a record has the scale, float32."""
_SCALED_SUM = 36
"""The sum of the integers times the scale, float32."""
_OFFSETS = {8: 40, 16: 44, 128: 48}
"""Minus the sum of the integers times the offset, int32."""
_HALVES, _HALVES_OFFSET = 52, 32
"""The same of the sums of columns 0 to 15 and 16 to 31, for one offset."""

_LANES = 16
_FLOATS, _INTEGERS = vector(f32, _LANES), vector(i32, _LANES)
_LARGEST = 127.0
_SMALLEST_MAGNITUDE = 2.0**-118
"""Columns below it become zeros: the reciprocal of their scale would overflow."""
_ROUNDING = 1.5 * 2.0**23
"""Added to a small float32, it leaves the nearest integer in the low bits; ties go to even."""
_ROUNDING_BITS = 0x4B400000
_GRAIN_ELEMENTS = 16_384


def record_row_bytes(columns: int) -> int:
    """Bytes of a row of records."""
    return columns // COLUMNS * RECORD_BYTES


def offset_start(k: Function, record: Value, half: int | None, offset: int, lanes: int) -> Value:
    """``-offset`` times the sum of the integers of a record, or of half of it; ``lanes x i32``.

    ``offset`` is a power of two: 8, 16 or 128 for whole records, up to 32 for halves.
    """
    if half is None:
        return k.load(i32, record, _OFFSETS[offset], align=4).splat(lanes)
    start = k.load(i32, record, _HALVES + 4 * half, align=4).splat(lanes)
    return start.shift_right_signed((_HALVES_OFFSET // offset).bit_length() - 1)


def scaled_sum(k: Function, record: Value, half: int | None, lanes: int) -> Value:
    """The sum of the integers of a record, or of half of it, times the scale; ``lanes x f32``."""
    if half is None:
        return k.load(f32, record, _SCALED_SUM, align=4).splat(lanes)
    total = k.load(i32, record, _HALVES + 4 * half, align=4).to(f32) * (-1.0 / _HALVES_OFFSET)
    return (total * k.load(f32, record, SCALE, align=4)).splat(lanes)


def quantized(b: ProgramBuilder, x: View, rows: RowSet) -> View:
    """Records of the rows of a set, one row after the other; made once however many use them.

    The columns are a multiple of 32.
    """

    def make() -> View:
        y = b.temporary(x.symbol, record_row_bytes(x.columns) * x.rows.scale)
        grain = max(1, _GRAIN_ELEMENTS // x.columns)
        numbers = {"columns": x.columns, "stride": x.stride, "grain": grain}
        operands: dict[str, Slot | View] = {"x": x, "y": y, "rows": rows.indices or Slot()}
        operands |= {name: Slot(offset=number) for name, number in numbers.items()}
        b.call(quantize, rows.count, operands, grain=grain)
        return replace(y, stride=record_row_bytes(x.columns))

    return b.shared(("quantized", x, rows), make)


def quantize(k: Kernel) -> None:
    """Kernel: records of some or all rows.

    Slots: ``x``, ``y``, the numbers ``rows`` or null for all, ``columns``, ``stride`` of ``x`` in bytes, ``grain``.
    """
    first = k.chunk * k.number("grain")
    columns = k.number("columns")
    with k.loop(first, k.minimum(first + k.number("grain"), k.work)) as row:
        target = k.pointer("y") + row * (columns // COLUMNS * RECORD_BYTES)
        quantize_row(k, k.pointer("x") + row_number(k, row) * k.number("stride"), columns, target)


def quantize_row(k: Function, x: Value, columns: Value | int, records: Value) -> None:
    """Write the code that makes the records of the row at ``x``."""
    with k.loop(0, k.integer(columns) // COLUMNS) as block:
        halves = [k.load(_FLOATS, x, block * (4 * COLUMNS) + half * 4 * _LANES) for half in range(2)]
        quantize_columns(k, halves, records + block * RECORD_BYTES)


def quantize_columns(k: Function, halves: list[Value], record: Value) -> None:
    """Write the code that makes one record of 32 columns, two ``16 x f32``.

    The scale is that of symmetric 8-bit quantisation, the largest magnitude divided by 127. It is NaN or infinite if
    one of the columns is.
    """
    magnitudes = [half.bits(_INTEGERS) & 0x7FFFFFFF for half in halves]
    largest = k.max(k.maximum(*magnitudes)).bits(f32)  # as integers NaN is above infinity and all numbers below
    small = largest < _SMALLEST_MAGNITUDE
    zero = k.constant(f32, 0.0)
    scale = k.select(small, zero, largest * (1 / _LARGEST))
    factor = k.select(small, zero, _LARGEST / largest).splat(_LANES)
    rounded = [k.fma(half, factor, k.constant(_FLOATS, _ROUNDING)).bits(_INTEGERS) for half in halves]
    for index, numbers in enumerate(rounded):
        k.store(numbers.to(i8), record, index * _LANES, align=16)
    low, high = (k.sum(numbers - _ROUNDING_BITS) for numbers in rounded)
    _store_sums(k, low, high, scale, record)


def _store_sums(k: Function, low: Value, high: Value, scale: Value, record: Value) -> None:
    total = low + high
    k.store(scale, record, SCALE, align=4)
    k.store(total.to(f32) * scale, record, _SCALED_SUM, align=4)
    for offset, place in _OFFSETS.items():
        k.store(total * -offset, record, place, align=4)
    for index, half in enumerate((low, high)):
        k.store(half * -_HALVES_OFFSET, record, _HALVES + 4 * index, align=4)
