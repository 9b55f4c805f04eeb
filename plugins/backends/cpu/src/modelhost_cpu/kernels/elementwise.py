"""Arithmetic on corresponding elements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from modelhost.api.backend import Node
from modelhost.graph import ops
from modelhost_cpu.language.function import Function
from modelhost_cpu.language.math import tanh
from modelhost_cpu.language.types import f32
from modelhost_cpu.language.value import Value
from modelhost_cpu.language.vectors import LANES, each_vector, load_part, store_part
from modelhost_cpu.native.kernel import Kernel
from modelhost_cpu.program.builder import ProgramBuilder
from modelhost_cpu.program.lowering import lowers
from modelhost_cpu.program.rows import RowSet

from .activations import ACTIVATIONS
from .gated_amx import rows_left
from .row_number import row_number

GRAIN_ELEMENTS = 16_384
"""Elements that a chunk has about; a step of one token is one chunk."""
Formula = Callable[..., Value]


def row_grain(columns: int) -> int:
    """Rows of ``columns`` elements in a chunk."""
    return max(1, GRAIN_ELEMENTS // columns)


def call_elementwise(b: ProgramBuilder, node: Node, formula: Formula, **constants: Any) -> None:
    """Append a call that computes ``formula(k, *operands, **constants)`` for every element of the node's output.

    Rows that are computed already are left out.
    """
    views = [b.view(operand) for operand in node.operands]  # type: ignore[arg-type]
    y = b.output(node.outputs[0], over=node.operands)
    operands = {f"x{index}": view for index, view in enumerate(views)}
    rows = rows_left(b, node, y) or RowSet(y.rows)
    b.call(
        elementwise,
        rows.count,
        {**operands, "y": y, "rows": rows.indices},
        grain=row_grain(y.columns),
        formula=formula,
        columns_of_row=y.columns,
        strides=tuple(view.stride for view in (*views, y)),
        parameters=tuple(constants.items()),
    )


def elementwise(
    k: Kernel,
    formula: Formula,
    columns_of_row: int,
    strides: tuple[int, ...],
    parameters: tuple[tuple[str, Any], ...],
) -> None:
    """Kernel: a formula over rows."""
    pointers = [k.pointer(f"x{index}") for index in range(len(strides) - 1)] + [k.pointer("y")]
    first, last = k.span(k.chunk, row_grain(columns_of_row))
    with k.loop(first, last) as place:
        row = row_number(k, place) if k.has("rows") else place
        *sources, y = [pointer + row * stride for pointer, stride in zip(pointers, strides, strict=True)]
        for offset, count in each_vector(k, columns_of_row):
            operands = [load_part(k, source, offset, count) for source in sources]
            store_part(k, formula(k, *operands, **dict(parameters)), y, offset, count)


def sum_of(k: Function, x: Value, y: Value) -> Value:
    """``x + y``."""
    return x + y


def product_of(k: Function, x: Value, y: Value) -> Value:
    """``x * y``."""
    return x * y


def scaled(k: Function, x: Value, factor: float) -> Value:
    """``x * factor``."""
    return x * factor


def clamped(k: Function, x: Value, low: float | None, high: float | None) -> Value:
    """``min(max(x, low), high)``."""
    if low is not None:
        x = k.maximum(k.constant(x.type, low), x)
    return x if high is None else k.minimum(k.constant(x.type, high), x)


def soft_capped(k: Function, x: Value, cap: float) -> Value:
    """``cap * tanh(x / cap)``."""
    return tanh(k, x / cap) * cap


def activated(k: Function, x: Value, kind: str) -> Value:
    """``activation(x)``."""
    return ACTIVATIONS[kind](k, x)


def gated(k: Function, gate: Value, up: Value, kind: str) -> Value:
    """``activation(gate) * up``."""
    return ACTIVATIONS[kind](k, gate) * up


@lowers(ops.add)
def lower_add(b: ProgramBuilder, node: Node) -> None:
    call_elementwise(b, node, sum_of)


@lowers(ops.multiply)
def lower_multiply(b: ProgramBuilder, node: Node) -> None:
    call_elementwise(b, node, product_of)


@lowers(ops.scale)
def lower_scale(b: ProgramBuilder, node: Node) -> None:
    call_elementwise(b, node, scaled, factor=_rounded(node.attributes["factor"], node.outputs[0].dtype))


@lowers(ops.clamp)
def lower_clamp(b: ProgramBuilder, node: Node) -> None:
    call_elementwise(b, node, clamped, **node.attributes)


@lowers(ops.soft_cap)
def lower_soft_cap(b: ProgramBuilder, node: Node) -> None:
    call_elementwise(b, node, soft_capped, **node.attributes)


@lowers(ops.activation)
def lower_activation(b: ProgramBuilder, node: Node) -> None:
    call_elementwise(b, node, activated, **node.attributes)


@lowers(ops.gated_activation)
def lower_gated_activation(b: ProgramBuilder, node: Node) -> None:
    call_elementwise(b, node, gated, **node.attributes)


def _rounded(number: float, dtype: str) -> float:
    """``number`` in the precision of ``dtype``, ties to even."""
    if dtype == "float16":
        return float(np.float16(number))
    single = np.float32(number)
    if dtype == "float32":
        return float(single)
    bits = int(single.view(np.uint32))
    return float(np.uint32((bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000).view(np.float32))


@lowers(ops.scale_rows)
def lower_scale_rows(b: ProgramBuilder, node: Node) -> None:
    x, factors = (b.view(operand) for operand in node.operands)  # type: ignore[arg-type]
    y = b.output(node.outputs[0], over=node.operands[:1])
    b.call(
        scale_rows,
        y.rows,
        {"x": x, "factors": factors, "y": y},
        grain=row_grain(y.columns),
        parts=factors.columns,
        columns_of_row=y.columns,
        strides=(x.stride, factors.stride, y.stride),
    )


def scale_rows(k: Kernel, parts: int, columns_of_row: int, strides: tuple[int, int, int]) -> None:
    """Kernel: every part of a row times its own factor."""
    x, factors, y = k.pointer("x"), k.pointer("factors"), k.pointer("y")
    width = columns_of_row // parts
    first, last = k.span(k.chunk, row_grain(columns_of_row))
    with k.loop(first, last) as row, k.loop(0, parts) as part:
        factor = k.load(f32, factors + row * strides[1], part * 4).splat(LANES)
        source, target = (
            base + row * stride + part * (4 * width) for base, stride in ((x, strides[0]), (y, strides[2]))
        )
        for offset, count in each_vector(k, width):
            store_part(k, load_part(k, source, offset, count) * factor, target, offset, count)
