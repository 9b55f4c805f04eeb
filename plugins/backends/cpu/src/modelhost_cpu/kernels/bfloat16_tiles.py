"""Operands of AMX products: rows of activations packed as bfloat16, and matrices decoded to bfloat16.

A step is 32 columns. A tile of a left operand has 16 rows of 32 columns; one of a right operand has for every two
columns 16 rows of the matrix: ``[16 pairs][16 rows][2 columns]``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from modelhost_cpu.encodings.packing import ROWS, Packing
from modelhost_cpu.encodings.quantized import Quantized
from modelhost_cpu.language.convert import narrow
from modelhost_cpu.language.function import Function
from modelhost_cpu.language.types import bf16, f32, i16, i32, vector
from modelhost_cpu.language.value import Value
from modelhost_cpu.native.kernel import Kernel
from modelhost_cpu.program.builder import ProgramBuilder
from modelhost_cpu.program.rows import RowSet
from modelhost_cpu.program.views import Slot, View

from .row_number import row_number

COLUMNS = 32
"""Columns of a step."""
PAIR = 32
"""Rows that lie together: two tiles."""
LINE = 64
"""Bytes of a row of a tile."""
_WIDEST = 1024
_WIDTH = 768
_GRANULE = 256
_FLOATS = vector(f32, ROWS)


def blocked_columns(columns: int) -> int:
    """Columns of a block of packed rows, so that a few hundred rows of it stay in a core's second cache.

    A multiple of the columns of any block of an encoding, unless it is all columns.
    """
    if columns <= _WIDEST:
        return columns
    blocks = -(-columns // _WIDTH)
    return -(-columns // (blocks * _GRANULE)) * _GRANULE


def packed_rows(b: ProgramBuilder, x: View, rows: RowSet) -> View:
    """The rows of a set as bfloat16; made once however many use them.

    ``[block of columns][32 rows][step][row][32 columns]``. The last block of columns and the last rows may be fewer;
    the last step is filled up with zeros.
    """

    def make() -> View:
        width = blocked_columns(x.columns)
        packed = b.temporary(x.symbol, x.rows.scale * packed_row_bytes(x.columns))
        operands: dict[str, Any] = {"x": x, "y": packed, "rows": rows.indices or Slot()}
        numbers = {"inputs": x.columns, "width": width, "stride": x.stride}
        operands |= {name: Slot(offset=number) for name, number in numbers.items()}
        b.call(pack_rows, rows.count, operands, grain=PAIR, columns=-(-x.columns // width))
        return packed

    return b.shared(_key(x, rows), make)


def use_packed_rows(b: ProgramBuilder, x: View, rows: RowSet, packed: View) -> None:
    """Say that the rows of a set are packed already."""
    b.shared(_key(x, rows), lambda: packed)


def _key(x: View, rows: RowSet) -> object:
    return "bfloat16 tiles", x, rows


def packed_row_bytes(columns: int) -> int:
    """Bytes of a packed row."""
    return -(-columns // COLUMNS) * LINE


def pack_rows(k: Kernel) -> None:
    """Kernel: one block of columns of 32 rows.

    Slots: ``x``, ``y``, the numbers ``rows`` or null for all; ``inputs``, the columns, ``width`` of a block of them,
    ``stride`` of ``x`` in bytes.
    """
    width = k.number("width")
    blocks = (k.number("inputs") + (width - 1)) // width
    block, first_row = k.chunk % blocks, k.chunk // blocks * PAIR
    count = k.minimum(k.work - first_row, k.integer(PAIR))
    columns = k.minimum(k.number("inputs") - block * width, width)
    steps = (columns + (COLUMNS - 1)) // COLUMNS
    target = k.pointer("y") + (k.work * block * width * 2 + first_row * steps * LINE)
    with k.loop(0, count) as row:
        source = k.pointer("x") + row_number(k, first_row + row) * k.number("stride") + block * width * 4
        with k.loop(0, columns // COLUMNS) as step:
            halves = [k.load(_FLOATS, source, step * (4 * COLUMNS) + 4 * ROWS * half) for half in range(2)]
            k.store(_joined(k, *halves), target, (step * count + row) * LINE, align=LINE)
        _pack_rest(k, source, columns, target + row * LINE, count)


def _pack_rest(k: Kernel, source: Value, columns: Value, target: Value, count: Value) -> None:
    """The last step, filled up with zeros, if there are not 32 columns for it."""
    whole = columns // COLUMNS
    rest = columns - whole * COLUMNS
    with k.when(rest > 0):
        start = source + whole * (4 * COLUMNS)
        halves = [k.load_masked(_FLOATS, start + 4 * ROWS * half, rest - ROWS * half) for half in range(2)]
        k.store(_joined(k, *halves), target, whole * count * LINE, align=LINE)


def _joined(k: Function, low: Value, high: Value) -> Value:
    """``32 x bfloat16`` of two ``16 x f32``, as ``32 x i16``."""
    if k.target.has("avx512bf16"):
        both = k.call("llvm.x86.avx512bf16.cvtne2ps2bf16.512", vector(bf16, 2 * ROWS), high, low)
        return both.bits(vector(i16, 2 * ROWS))
    return narrow(k, low, bf16).join(narrow(k, high, bf16))


def _interleaved(k: Function, even: Value, odd: Value) -> Value:
    """bfloat16 numbers of two columns, ``[16 rows][2 columns]``."""
    order = [half + 16 * column for half in range(ROWS) for column in range(2)]
    return _joined(k, even, odd).shuffle(order)


def _rounded_pair(even: Value, odd: Value) -> Value:
    """The same of finite numbers, rounded to nearest; ties go away from zero in the even column, towards it in the odd.

    The conversions of the CPU do not run beside AMX as well as these integer operations.
    """
    integers = vector(i32, ROWS)
    low, high = even.bits(integers) + 0x8000, odd.bits(integers) + 0x7FFF
    return (low >> 16) | (high & -0x10000)


def decode_step(k: Function, packing: Packing, group: Value, step: Value, columns: Value | None, tile: Value) -> None:
    """Write the code that decodes 32 columns of a group to a tile.

    Args:
        group: address of the group's blocks.
        step: number of the 32 columns.
        columns: of the group, unless they are a multiple of 32; beyond them the tile gets zeros.
        tile: address of the tile, aligned to 64 bytes.
    """
    if isinstance(packing, Quantized):
        parts = packing.parts
        _decode_quantized(k, packing, group + step // parts * packing.block_bytes, step % parts, tile)
    else:
        _decode_plain(k, packing, group, step * COLUMNS, columns, tile)


def _decode_quantized(k: Function, packing: Quantized, block: Value, part: Value, tile: Value) -> None:
    address = packing.part_address(block, part)
    factors = list(packing.factors(k, packing.common_factors(k, block), address, 0, ROWS))
    decoders = [_decoder(k, packing.offset, each.scale, each.minimum) for each in factors]
    for quad, numbers in enumerate(packing.quads(k, address)):
        decode = decoders[4 * quad // packing.scale_columns]
        values = [decode(numbers, byte) for byte in range(4)]
        for half in range(2):
            pair = _rounded_pair(values[2 * half], values[2 * half + 1])
            k.store(pair, tile, (2 * quad + half) * LINE, align=LINE)


def _decoder(k: Function, offset: int, scale: Value, minimum: Value | None) -> Callable[[Value, int], Value]:
    """What makes values of bytes of a quad. A byte is converted where it is, and the scale divided accordingly."""
    below = minimum if minimum is not None else k.zero(_FLOATS)
    constant = k.fma(scale, k.constant(_FLOATS, -offset), below)
    scales = [scale, scale * 2.0**-8, scale * 2.0**-16]

    def decode(numbers: Value, byte: int) -> Value:
        number = numbers >> 24 if byte == 3 else numbers & (0xFF << (8 * byte))
        return k.fma(number.to(f32), scales[byte % 3], constant)

    return decode


def _decode_plain(
    k: Function, packing: Packing, group: Value, first: Value, columns: Value | None, tile: Value
) -> None:
    def load(column: Value) -> Value:
        address = group + column // packing.block * packing.block_bytes
        if packing.block == 2:
            return k.load(vector(i16, 2 * ROWS), address)
        values = [next(packing.columns(k, address + index * packing.block_bytes))[1] for index in range(2)]
        return _interleaved(k, *values)

    pairs = k.integer(COLUMNS // 2)
    if columns is not None:
        pairs = k.minimum((columns - first) // 2, pairs)
    with k.loop(0, pairs) as pair:
        k.store(load(first + pair * 2), tile, pair * LINE, align=LINE)
    if columns is None:
        return
    with k.loop(pairs, COLUMNS // 2) as pair:
        k.store(k.zero(vector(i16, 2 * ROWS)), tile, pair * LINE, align=LINE)
    odd = columns - first - pairs * 2
    with k.when(odd.equals(1)):
        address = group + (columns - 1) // packing.block * packing.block_bytes
        _, values = next(packing.columns(k, address))
        k.store(_interleaved(k, values, k.zero(_FLOATS)), tile, pairs * LINE, align=LINE)
