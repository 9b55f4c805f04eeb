"""Normalisation of rows: RMS norm, alone and after a residual addition, and layer norm.

A row is summed in four vectors of sixteen partial sums, whatever the CPU, so that its result depends on nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import reduce
from operator import add
from typing import Any

from modelhost.api.backend import Node
from modelhost.graph import ops
from modelhost_cpu.language.function import Function
from modelhost_cpu.language.value import Value
from modelhost_cpu.language.vectors import BYTES, FLOATS, LANES, each_vector, load_part, store_part
from modelhost_cpu.native.kernel import Kernel
from modelhost_cpu.program.builder import ProgramBuilder
from modelhost_cpu.program.lowering import lowers
from modelhost_cpu.program.views import Slot

from .elementwise import row_grain

_SUMS = 4


def sum_row(k: Function, width: int, step: Callable[[Value, Value, int], Value]) -> Value:
    """The sum over a row of ``width`` elements.

    Args:
        step: gives the new value of a vector of partial sums, from the old one, the offset in bytes of a vector of the
            row, and how many lanes that fills.
    """
    sums = [k.variable(k.zero(FLOATS)) for _ in range(min(_SUMS, -(-width // LANES)))]
    together = len(sums) * LANES
    done = width // together * together
    with k.loop(0, done * 4, together * 4) as offset:
        for index, total in enumerate(sums):
            total.set(step(total.value, offset + index * BYTES, LANES))
    for total, start in zip(sums, range(done, width, LANES), strict=False):
        total.set(step(total.value, k.integer(start * 4), min(LANES, width - start)))
    return k.sum(reduce(add, [total.value for total in sums]))


def _inverse_root(k: Function, total: Value, width: int, eps: float) -> Value:
    """``1 / sqrt(total / width + eps)`` in every lane."""
    return (1.0 / k.sqrt(total / float(width) + eps)).splat(LANES)


def _each_row(k: Kernel, row_size: int, width: int) -> tuple[AbstractContextManager[Value], ...]:
    """Loops over the rows of a chunk and over their parts of ``width`` elements."""
    first, last = k.span(k.chunk, row_grain(row_size))
    return k.loop(first, last), k.loop(0, row_size * 4, width * 4)


def rms_norm(k: Kernel, row_size: int, width: int, strides: tuple[int, ...], eps: float, weight_offset: float) -> None:
    """Kernel: norm every ``width`` elements of rows of ``row_size``.

    Slots: ``x``, ``y``, and if they are given ``weight``; ``residual`` and ``total``, which takes their sum. The
    strides are those of ``x``, ``y``, ``residual`` and ``total``.
    """
    x, y = k.pointer("x"), k.pointer("y")
    rows, parts = _each_row(k, row_size, width)
    with rows as row, parts as part:
        source, target = x + row * strides[0] + part, y + row * strides[1] + part
        read = source
        if k.has("residual"):
            residual = k.pointer("residual") + row * strides[2] + part
            read = k.pointer("total") + row * strides[3] + part
            total = _sum_squares(k, width, lambda o, n: _added(k, source, residual, read, o, n))
        else:
            total = _sum_squares(k, width, lambda o, n: load_part(k, source, o, n))
        factor = _inverse_root(k, total, width, eps)
        for offset, count in each_vector(k, width):
            value = load_part(k, read, offset, count) * factor
            if k.has("weight"):
                weight = load_part(k, k.pointer("weight"), offset, count)
                value = value * (weight + weight_offset if weight_offset else weight)
            store_part(k, value, target, offset, count)


def _sum_squares(k: Function, width: int, element: Callable[[Value, int], Value]) -> Value:
    def add_square(total: Value, offset: Value, count: int) -> Value:
        value = element(offset, count)
        return k.fma(value, value, total)

    return sum_row(k, width, add_square)


def _added(k: Function, x: Value, residual: Value, total: Value, offset: Value, count: int) -> Value:
    """``x + residual``, kept in ``total``."""
    value = load_part(k, x, offset, count) + load_part(k, residual, offset, count)
    store_part(k, value, total, offset, count)
    return value


def layer_norm(k: Kernel, row_size: int, width: int, strides: tuple[int, int], eps: float) -> None:
    """Kernel: centre and norm every ``width`` elements of rows of ``row_size``.

    Slots: ``x``, ``y``, and if they are given ``weight`` and ``bias``. The strides are those of ``x`` and ``y``.
    """
    x, y = k.pointer("x"), k.pointer("y")
    rows, parts = _each_row(k, row_size, width)
    with rows as row, parts as part:
        source, target = x + row * strides[0] + part, y + row * strides[1] + part
        sum_ = sum_row(k, width, lambda total, o, n: total + load_part(k, source, o, n))
        mean = (sum_ / float(width)).splat(LANES)
        total = _sum_squares(k, width, lambda o, n: _centred(k, source, mean, o, n))
        factor = _inverse_root(k, total, width, eps)
        for offset, count in each_vector(k, width):
            value = _centred(k, source, mean, offset, count) * factor
            if k.has("weight"):
                value = value * load_part(k, k.pointer("weight"), offset, count)
            if k.has("bias"):
                value = value + load_part(k, k.pointer("bias"), offset, count)
            store_part(k, value, target, offset, count)


def _centred(k: Function, source: Value, mean: Value, offset: Value, count: int) -> Value:
    """The elements without their mean, zeros in the lanes beyond ``count``."""
    value = load_part(k, source, offset, count) - mean
    return value if count == LANES else k.select(k.first_lanes(LANES, k.integer(count)), value, k.zero(FLOATS))


def _vector(b: ProgramBuilder, parameter: Any) -> Slot | None:
    return None if parameter is None else b.values(parameter)


def _width(tensor: Any) -> int:
    return int(tensor.shape[-1])


@lowers(ops.rms_norm)
def lower_rms_norm(b: ProgramBuilder, node: Node) -> None:
    operand, weight = node.operands
    x, y = b.view(operand), b.output(node.outputs[0], over=[operand])  # type: ignore[arg-type]
    b.call(
        rms_norm,
        y.rows,
        {"x": x, "y": y, "weight": _vector(b, weight)},
        grain=row_grain(y.columns),
        row_size=y.columns,
        width=_width(operand),
        strides=(x.stride, y.stride),
        **node.attributes,
    )


@lowers(ops.add_rms_norm)
def lower_add_rms_norm(b: ProgramBuilder, node: Node) -> None:
    first, second, weight = node.operands
    x, residual = b.view(first), b.view(second)  # type: ignore[arg-type]
    total = b.output(node.outputs[0], over=[second, first])
    y = b.output(node.outputs[1], over=[first, second])
    b.call(
        rms_norm,
        y.rows,
        {"x": x, "residual": residual, "total": total, "y": y, "weight": _vector(b, weight)},
        grain=row_grain(y.columns),
        row_size=y.columns,
        width=_width(first),
        strides=(x.stride, y.stride, residual.stride, total.stride),
        **node.attributes,
    )


@lowers(ops.layer_norm)
def lower_layer_norm(b: ProgramBuilder, node: Node) -> None:
    operand, weight, bias = node.operands
    x, y = b.view(operand), b.output(node.outputs[0], over=[operand])  # type: ignore[arg-type]
    b.call(
        layer_norm,
        y.rows,
        {"x": x, "y": y, "weight": _vector(b, weight), "bias": _vector(b, bias)},
        grain=row_grain(y.columns),
        row_size=y.columns,
        width=_width(operand),
        strides=(x.stride, y.stride),
        **node.attributes,
    )
