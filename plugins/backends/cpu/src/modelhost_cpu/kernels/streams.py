"""Hyper-connections: the weights of a token's residual streams, and their mixtures."""

from __future__ import annotations

from functools import reduce
from operator import add
from typing import Any

from modelhost.api.backend import Node
from modelhost.graph import ops
from modelhost_cpu.language.function import Function, Variable
from modelhost_cpu.language.math import exp, sigmoid
from modelhost_cpu.language.types import f32, vector
from modelhost_cpu.language.value import Value
from modelhost_cpu.language.vectors import LANES, each_vector, load_part, store_part
from modelhost_cpu.native.kernel import Kernel
from modelhost_cpu.program.builder import ProgramBuilder
from modelhost_cpu.program.lowering import lowers

from .elementwise import row_grain

_WEIGHTS_GRAIN = 16


def stream_weights(k: Kernel, streams: int, whole: bool, stride: int, iterations: int, eps: float) -> None:
    """Kernel: the weights of some tokens. All streams of a token lie side by side in a vector.

    Slots: ``projected``, ``factors``, ``bias``, ``collapse``, and if ``whole`` is set ``expand`` and ``matrix``.
    """
    type_, row_bytes = vector(f32, streams), 4 * streams
    first, last = k.span(k.chunk, _WEIGHTS_GRAIN)
    with k.loop(first, last) as token:
        source = k.pointer("projected") + token * stride

        def scaled(index: int, factor: int, source: Value = source) -> Value:
            weight = k.load(f32, k.pointer("factors"), 4 * factor).splat(streams)
            value = k.load(type_, source, index * row_bytes) * weight
            return value + k.load(type_, k.pointer("bias"), index * row_bytes)

        k.store(sigmoid(k, scaled(0, 0)) + eps, k.pointer("collapse") + token * row_bytes)
        if whole:
            k.store(sigmoid(k, scaled(1, 1)) * 2.0, k.pointer("expand") + token * row_bytes)
            rows = _doubly_stochastic(k, [scaled(2 + row, 2) for row in range(streams)], iterations, eps)
            for index, row in enumerate(rows):
                k.store(row, k.pointer("matrix") + token * (streams * row_bytes), index * row_bytes)


def _doubly_stochastic(k: Function, rows: list[Value], iterations: int, eps: float) -> list[Value]:
    """Rows and columns that add up to one, by dividing them by their sums in turn."""
    rows = [exp(k, row - _across(row, k.maximum)) for row in rows]
    rows = _by_columns([row / _across(row, add) + eps for row in rows], eps)
    matrix = [k.variable(row) for row in rows]
    with k.loop(0, iterations - 1):
        _divide_in_turn(matrix, eps)
    return [row.value for row in matrix]


def _divide_in_turn(matrix: list[Variable], eps: float) -> None:
    values = [row.value for row in matrix]
    divided = _by_columns([row / (_across(row, add) + eps) for row in values], eps)
    for row, value in zip(matrix, divided, strict=True):
        row.set(value)


def _across(row: Value, combine: Any) -> Value:
    """The lanes of a row combined one after the other, in every lane."""
    lanes = row.type.count
    result: Value = reduce(combine, [row.lane(lane) for lane in range(lanes)])
    return result.splat(lanes)


def _by_columns(rows: list[Value], eps: float) -> list[Value]:
    total = reduce(add, rows) + eps
    return [row / total for row in rows]


@lowers(ops.stream_weights)
def lower_stream_weights(b: ProgramBuilder, node: Node) -> None:
    operand, factors, bias = node.operands
    projected = b.view(operand)  # type: ignore[arg-type]
    outputs = [b.output(tensor) for tensor in node.outputs]
    results = dict(zip(("collapse", "expand", "matrix"), outputs, strict=False))
    b.call(
        stream_weights,
        projected.rows,
        {"projected": projected, "factors": b.values(factors), "bias": b.values(bias), **results},
        grain=_WEIGHTS_GRAIN,
        whole=len(outputs) > 1,
        stride=projected.stride,
        **node.attributes,
    )


def mix_streams(k: Kernel, inputs: int, outputs: int, width: int, strides: tuple[int, int]) -> None:
    """Kernel: every output stream of a token is a weighted sum of its input streams, added in order."""
    x, weights, y = k.pointer("x"), k.pointer("weights"), k.pointer("y")
    first, last = k.span(k.chunk, row_grain(inputs * outputs * width))
    with k.loop(first, last) as token, k.loop(0, outputs) as output:
        source, target = x + token * strides[0], y + token * (4 * outputs * width) + output * (4 * width)
        places = [weights + token * strides[1] + output * 4 + stream * (4 * outputs) for stream in range(inputs)]
        factors = [k.load(f32, place).splat(LANES) for place in places]
        for offset, count in each_vector(k, width):
            total = k.constant(factors[0].type, 0.0)
            for stream, factor in enumerate(factors):
                total = k.fma(factor, load_part(k, source + 4 * width * stream, offset, count), total)
            store_part(k, total, target, offset, count)


@lowers(ops.mix_streams)
def lower_mix_streams(b: ProgramBuilder, node: Node) -> None:
    operands: Any = node.operands
    x, weights = (b.view(operand) for operand in operands)
    _, inputs, width = operands[0].shape
    outputs = operands[1].shape[2]
    y = b.output(node.outputs[0])
    b.call(
        mix_streams,
        y.rows,
        {"x": x, "weights": weights, "y": y},
        grain=row_grain(inputs * outputs * width),
        inputs=inputs,
        outputs=outputs,
        width=width,
        strides=(x.stride, weights.stride),
    )
