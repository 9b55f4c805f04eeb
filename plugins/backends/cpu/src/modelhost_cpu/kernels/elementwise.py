"""Arithmetic on corresponding elements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from modelhost.api.backend import Node
from modelhost.graph import ops
from modelhost_cpu.language.types import f32, vector
from modelhost_cpu.language.value import Value
from modelhost_cpu.native.kernel import Kernel
from modelhost_cpu.program.builder import ProgramBuilder
from modelhost_cpu.program.lowering import lowers

LANES = 16
_GRAIN_ELEMENTS = 16_384
Formula = Callable[..., Value]


def call_elementwise(b: ProgramBuilder, node: Node, formula: Formula, **constants: Any) -> None:
    """Append a call that computes ``formula(k, *operands, **constants)`` for every element of the node's output."""
    views = [b.view(operand) for operand in node.operands]  # type: ignore[arg-type]
    y = b.output(node.outputs[0])
    operands = {f"x{index}": view for index, view in enumerate(views)}
    b.call(
        elementwise,
        y.rows,
        {**operands, "y": y},
        grain=max(1, _GRAIN_ELEMENTS // y.columns),
        formula=formula,
        columns_of_row=y.columns,
        strides=tuple(view.stride for view in (*views, y)),
        row_grain=max(1, _GRAIN_ELEMENTS // y.columns),
        parameters=tuple(constants.items()),
    )


def elementwise(
    k: Kernel,
    formula: Formula,
    columns_of_row: int,
    strides: tuple[int, ...],
    row_grain: int,
    parameters: tuple[tuple[str, Any], ...],
) -> None:
    """Kernel: a formula over rows."""
    *sources, y = [k.pointer(f"x{index}") for index in range(len(strides) - 1)] + [k.pointer("y")]
    first, last = k.span(k.chunk, row_grain)
    with k.loop(first, last) as row:
        for start, count, lanes in pieces(columns_of_row):
            with k.loop(start, start + count * lanes, lanes) as column:
                type_ = vector(f32, lanes) if lanes > 1 else f32
                operands = [
                    k.load(type_, source, row * stride + column * 4)
                    for source, stride in zip(sources, strides[:-1], strict=True)
                ]
                k.store(formula(k, *operands, **dict(parameters)), y, row * strides[-1] + column * 4)


def pieces(columns: int, lanes: int = LANES) -> list[tuple[int, int, int]]:
    """Cut a row into whole vectors and single elements: start, how many, lanes of each."""
    whole = columns // lanes
    parts = [(0, whole, lanes), (whole * lanes, columns - whole * lanes, 1)]
    return [part for part in parts if part[1]]


def sum_of(k: Kernel, x: Value, y: Value) -> Value:
    """``x + y``."""
    return x + y


def product_of(k: Kernel, x: Value, y: Value) -> Value:
    """``x * y``."""
    return x * y


@lowers(ops.add)
def lower_add(b: ProgramBuilder, node: Node) -> None:
    call_elementwise(b, node, sum_of)


@lowers(ops.multiply)
def lower_multiply(b: ProgramBuilder, node: Node) -> None:
    call_elementwise(b, node, product_of)
