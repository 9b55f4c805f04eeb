"""Ops that move or rename values. Where the rows stay what they are, nothing is copied."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Any

from modelhost.api.backend import Node, Tensor
from modelhost.graph import ops
from modelhost_cpu.language.types import i32, i64
from modelhost_cpu.language.value import Value
from modelhost_cpu.language.vectors import each_vector, load_part, store_part
from modelhost_cpu.native.kernel import Kernel
from modelhost_cpu.program.builder import ProgramBuilder
from modelhost_cpu.program.lowering import lowers
from modelhost_cpu.program.views import View

_GRAIN_ELEMENTS = 16_384


def copy_elements(k: Kernel, source: Value, target: Value, columns: int) -> None:
    """Copy ``columns`` 4-byte elements."""
    for offset, count in each_vector(k, columns):
        store_part(k, load_part(k, source, offset, count), target, offset, count)


def copy_rows(k: Kernel, parts: int, width: int, strides: tuple[int, int, int, int], row_grain: int) -> None:
    """Kernel: copy ``[work, parts, width]``, the two strides of ``x`` and then of ``y`` in bytes."""
    x, y = k.pointer("x"), k.pointer("y")
    first, last = k.span(k.chunk, row_grain)
    with k.loop(first, last) as row, k.loop(0, parts) as part:
        source, target = (
            base + row * outer + part * inner for base, outer, inner in ((x, *strides[:2]), (y, *strides[2:]))
        )
        copy_elements(k, source, target, width)


def call_copy(b: ProgramBuilder, x: View, y: View, parts: int, columns: int, inner: tuple[int, int]) -> None:
    """Append a copy of ``columns`` elements of every one of ``parts`` parts of a row, ``inner`` bytes apart."""
    grain = max(1, _GRAIN_ELEMENTS // (parts * columns))
    strides = (x.stride, inner[0], y.stride, inner[1])
    operands = {"x": x, "y": y}
    b.call(copy_rows, x.rows, operands, grain=grain, parts=parts, width=columns, strides=strides, row_grain=grain)


def contiguous(b: ProgramBuilder, x: View) -> View:
    """``x``, copied if its rows do not follow one another."""
    if x.contiguous:
        return x
    scale = x.rows.scale
    memory = b.temporary(x.symbol, x.columns * 4 * scale)
    y = replace(x, stride=x.columns * 4, place=None, buffer=memory.buffer, offset=0)
    call_copy(b, x, y, 1, x.columns, (0, 0))
    return y


def flat(b: ProgramBuilder, x: View, width: int) -> View:
    """``x`` as rows of ``width`` elements: all dimensions but the last together count as rows."""
    if x.columns == width:
        return x
    x = contiguous(b, x)
    rows = replace(x.rows, scale=x.rows.scale * (x.columns // width), offset=x.rows.offset * (x.columns // width))
    return replace(x, rows=rows, columns=width, stride=width * 4)


def _inner_shape(tensor: Tensor) -> list[int]:
    return [dim for dim in tensor.shape[1:] if isinstance(dim, int)]


@lowers(ops.reshape)
def lower_reshape(b: ProgramBuilder, node: Node) -> None:
    operand: Any = node.operands[0]
    x, result = b.view(operand), node.outputs[0]
    columns = prod(_inner_shape(result))
    if columns != x.columns:
        x = contiguous(b, x)
    first: Any = result.shape[0]
    rows = replace(x.rows, scale=first.scale, offset=first.offset)
    stride = x.stride if columns == x.columns else columns * 4
    b.alias(result, replace(x, rows=rows, columns=columns, stride=stride))


@lowers(ops.cast)
def lower_cast(b: ProgramBuilder, node: Node) -> None:
    operand: Any = node.operands[0]
    b.alias(node.outputs[0], b.view(operand))


@lowers(ops.split)
def lower_split(b: ProgramBuilder, node: Node) -> None:
    operand: Any = node.operands[0]
    x, sizes = b.view(operand), node.attributes["sizes"]
    *outer, width = [1, *_inner_shape(operand)]
    parts, start = prod(outer), 0
    for output, size in zip(node.outputs, sizes, strict=True):
        if parts == 1:
            b.alias(output, x.part(start, size))
        else:
            source = replace(x.part(start, size), columns=x.columns)
            call_copy(b, source, b.output(output), parts, size, (width * 4, size * 4))
        start += size


@lowers(ops.concatenate)
def lower_concatenate(b: ProgramBuilder, node: Node) -> None:
    y = b.output(node.outputs[0])
    width = [1, *_inner_shape(node.outputs[0])][-1]
    parts, start = y.columns // width, 0
    for operand in node.operands:
        tensor: Any = operand
        size = _inner_shape(tensor)[-1]
        target = replace(y, offset=y.offset + start * 4)
        call_copy(b, b.view(tensor), target, parts, size, (size * 4, width * 4))
        start += size


def gather_rows(k: Kernel, width: int, x_stride: int, row_grain: int) -> None:
    """Kernel: ``y[i] = x[rows[i]]``."""
    x, y, rows = k.pointer("x"), k.pointer("y"), k.pointer("rows")
    first, last = k.span(k.chunk, row_grain)
    with k.loop(first, last) as row:
        source = k.load(i32, rows, row * 4).to(i64)
        copy_elements(k, x + source * x_stride, y + row * (width * 4), width)


@lowers(ops.take_rows)
def lower_take_rows(b: ProgramBuilder, node: Node) -> None:
    source, indices = node.operands
    x, rows = b.view(source), b.view(indices)  # type: ignore[arg-type]
    y = b.output(node.outputs[0])
    grain = max(1, _GRAIN_ELEMENTS // y.columns)
    operands = {"x": x, "y": y, "rows": rows}
    b.call(gather_rows, y.rows, operands, grain=grain, width=y.columns, x_stride=x.stride, row_grain=grain)
