"""Projections of their own for every head, in float32: the weights are decoded, products are added in order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from modelhost.api.backend import Node
from modelhost.graph import ops
from modelhost_cpu.encodings.packing import ROWS, Packing, decode_columns, padded_columns
from modelhost_cpu.encodings.plain import Plain
from modelhost_cpu.language.types import f32, i32, void
from modelhost_cpu.language.value import Value
from modelhost_cpu.language.vectors import BYTES, FLOATS, LANES
from modelhost_cpu.native.kernel import Kernel
from modelhost_cpu.program.builder import ProgramBuilder
from modelhost_cpu.program.lowering import lowers
from modelhost_cpu.program.views import Slot
from modelhost_cpu.weights import group_bytes

_TILE = 4
_STRIP = 256
"""Columns of a chunk of a transposed product; a multiple of the columns of any block."""


@dataclass(frozen=True, slots=True)
class Heads:
    """The shape of a projection.

    Attributes:
        count: heads.
        stored: rows of the matrix for each head.
        first: the first one that is used.
        used: how many are used.
        columns: of the matrix.
    """

    count: int
    stored: int
    first: int
    used: int
    columns: int

    @property
    def groups(self) -> int:
        """The most groups of rows that the used rows of a head are in."""
        return max(
            (start + self.used - 1) // ROWS - start // ROWS + 1
            for start in (head * self.stored + self.first for head in range(self.count))
        )

    @property
    def strips(self) -> int:
        """Strips of columns."""
        return -(-self.columns // _STRIP)


@lowers(ops.head_linear)
def lower_head_linear(b: ProgramBuilder, node: Node) -> None:
    tensor, weight = node.operands
    source: Any = tensor
    x, y, stored = b.view(source), b.output(node.outputs[0]), b.parameter(weight)
    packing: Packing = stored.packing if stored is not None and stored.packing is not None else Plain("f32")
    start, stop = node.attributes["rows"]
    total, columns = (int(size) for size in weight.shape)  # type: ignore[union-attr, arg-type]
    count = int(source.shape[1])
    heads = Heads(count, total // count, start, stop - start, columns)
    transpose = bool(node.attributes["transpose"])
    b.call(
        head_linear_transposed if transpose else head_linear,
        x.rows,
        {"x": x, "y": y, "weight": Slot(offset=stored.address if stored is not None else 0)},
        columns=count * (heads.strips if transpose else heads.groups),
        scratch=heads.used * _STRIP * 4 if transpose else padded_columns(packing, columns) * BYTES,
        detail=f"{packing.name} {count}x{heads.used}x{columns}",
        weight_bytes=-(-total // ROWS) * group_bytes(packing, columns),
        packing=packing,
        heads=heads,
        strides=(x.stride, y.stride),
    )


def head_linear(k: Kernel, packing: Packing, heads: Heads, strides: tuple[int, int]) -> None:
    """Kernel: the results of one head for the rows of one group, for all tokens. Slots: ``x``, ``y``, ``weight``."""
    head = k.chunk // heads.groups
    start = head * heads.stored + heads.first
    group = start // ROWS + k.chunk % heads.groups
    place = group * ROWS - start
    with k.when(place < heads.used):
        weight = k.pointer("weight") + group * group_bytes(packing, heads.columns)
        decode_columns(k, packing, weight, heads.columns, k.scratch)
        x = k.pointer("x") + head * (4 * heads.columns)
        y = k.pointer("y") + (head * heads.used + place) * 4
        mask = _between(k, -place, k.integer(heads.used) - place)
        for token, sums in _products(k, x, strides[0], heads.columns, k.scratch, BYTES):
            _store(k, sums, y + token * strides[1], mask)


def head_linear_transposed(k: Kernel, packing: Packing, heads: Heads, strides: tuple[int, int]) -> None:
    """Kernel: a strip of the columns of the results of one head, for all tokens. Slots: ``x``, ``y``, ``weight``."""
    head, first = k.chunk // heads.strips, k.chunk % heads.strips * _STRIP
    count = k.minimum(k.integer(heads.columns) - first, k.integer(_STRIP))
    _decode_strip(k, packing, heads, head, first, count)
    x = k.pointer("x") + head * (4 * heads.used)
    y = k.pointer("y") + (head * heads.columns + first) * 4
    with k.loop(0, count, LANES) as column:
        mask = k.first_lanes(LANES, count - column)
        for token, sums in _products(k, x, strides[0], heads.used, k.scratch + column * 4, _STRIP * 4):
            _store(k, sums, y + column * 4 + token * strides[1], mask)


def _decode_strip(k: Kernel, packing: Packing, heads: Heads, head: Value, first: Value, count: Value) -> None:
    """The used rows of a head in scratch memory, ``[used][_STRIP]``."""
    part, parts = packing.part, packing.block // packing.part
    weight, nbytes = k.pointer("weight"), group_bytes(packing, heads.columns)
    with k.loop(0, heads.used) as row:
        number = head * heads.stored + heads.first + row
        group = weight + number // ROWS * nbytes
        with k.loop(0, (count + (part - 1)) // part) as index:
            block = group + (first // packing.block + index // parts) * packing.block_bytes
            values = packing.row(k, block, number % ROWS, index % parts)
            k.store(values, k.scratch + row * (4 * _STRIP), index * (4 * part))


def _products(
    k: Kernel, x: Value, stride: int, terms: int, panel: Value, panel_stride: int
) -> Iterator[tuple[Value, Value]]:
    """Loops over the tokens: number of each one and the sum of ``x[token][i] * panel[i]``, in order of ``i``."""
    whole = k.work - k.work % _TILE
    for start, stop, size in ((k.integer(0), whole, _TILE), (whole, k.work, 1)):
        with k.loop(start, stop, size) as token:
            sums = [k.variable(k.zero(FLOATS)) for _ in range(size)]
            with k.loop(0, terms) as term:
                values = k.load(FLOATS, panel, term * panel_stride, align=64)
                for index, total in enumerate(sums):
                    factor = k.load(f32, x, (token + index) * stride + term * 4, align=4).splat(LANES)
                    total.set(k.fma(factor, values, total.value))
            for index, total in enumerate(sums):
                yield token + index, total.value


def _between(k: Kernel, first: Value, last: Value) -> Value:
    """Bits of the lanes from ``first`` on and before ``last``."""
    lanes = k.vector(i32, list(range(LANES)))
    return (lanes >= first.to(i32).splat(LANES)) & (lanes < last.to(i32).splat(LANES))


def _store(k: Kernel, value: Value, pointer: Value, mask: Value) -> None:
    k.call("llvm.masked.store.v16f32.p0", void, value, pointer, k.constant(i32, 1), mask)
