"""Rotation of heads by the angles of their positions."""

from __future__ import annotations

from modelhost.api.backend import Node
from modelhost.graph import ops
from modelhost_cpu.language.function import Function
from modelhost_cpu.language.types import f32, lanes_of, vector
from modelhost_cpu.language.value import Value
from modelhost_cpu.language.vectors import even_part
from modelhost_cpu.native.kernel import Kernel
from modelhost_cpu.program.builder import ProgramBuilder
from modelhost_cpu.program.lowering import lowers

from .elementwise import row_grain
from .shape import copy_elements


def rope(k: Kernel, heads: int, size: int, rotated: int, strides: tuple[int, int, int], interleaved: bool) -> None:
    """Kernel: rotate the first ``rotated`` of ``size`` elements of every head.

    Slots: ``x``, ``table``, ``y``, in the order of the strides.
    """
    x, table, y = k.pointer("x"), k.pointer("table"), k.pointer("y")
    first, last = k.span(k.chunk, row_grain(heads * size))
    rotate = _rotate_neighbours if interleaved else _rotate_halves
    with k.loop(first, last) as row, k.loop(0, heads * size * 4, size * 4) as head:
        source, target = x + row * strides[0] + head, y + row * strides[2] + head
        rotate(k, source, table + row * strides[1], target, rotated // 2)
        copy_elements(k, source + 4 * rotated, target + 4 * rotated, size - rotated)


def _turned(k: Function, first: Value, second: Value, cosine: Value, sine: Value) -> tuple[Value, Value]:
    return k.fma(first, cosine, -(second * sine)), k.fma(second, cosine, first * sine)


def _rotate_halves(k: Function, x: Value, table: Value, y: Value, pairs: int) -> None:
    type_ = even_part(pairs)
    with k.loop(0, 4 * pairs, 4 * (lanes_of(type_) or 1)) as column:
        first, second = k.load(type_, x, column), k.load(type_, x + 4 * pairs, column)
        cosine, sine = k.load(type_, table, column), k.load(type_, table + 4 * pairs, column)
        first, second = _turned(k, first, second, cosine, sine)
        k.store(first, y, column)
        k.store(second, y + 4 * pairs, column)


def _rotate_neighbours(k: Function, x: Value, table: Value, y: Value, pairs: int) -> None:
    type_ = even_part(pairs)
    lanes = lanes_of(type_) or 1
    with k.loop(0, 4 * pairs, 4 * lanes) as column:
        both = k.load(vector(f32, 2 * lanes), x, column * 2)
        even, odd = range(0, 2 * lanes, 2), range(1, 2 * lanes, 2)
        first, second = (both.shuffle(part) if lanes > 1 else both.lane(part[0]) for part in (even, odd))
        cosine, sine = k.load(type_, table, column), k.load(type_, table + 4 * pairs, column)
        first, second = _turned(k, first, second, cosine, sine)
        if lanes > 1:
            order = [lane + half for lane in range(lanes) for half in (0, lanes)]
            k.store(first.shuffle(order, second), y, column * 2)
        else:
            k.store(first, y, column * 2)
            k.store(second, y + 4, column * 2)


@lowers(ops.rope)
def lower_rope(b: ProgramBuilder, node: Node) -> None:
    operand, angles = node.operands
    x, table = b.view(operand), b.view(angles)  # type: ignore[arg-type]
    y = b.output(node.outputs[0], over=[operand])
    size = int(operand.shape[2])  # type: ignore[union-attr, arg-type]
    b.call(
        rope,
        y.rows,
        {"x": x, "table": table, "y": y},
        grain=row_grain(y.columns),
        heads=y.columns // size,
        size=size,
        rotated=table.columns,
        strides=(x.stride, table.stride, y.stride),
        interleaved=node.attributes["interleaved"],
    )
