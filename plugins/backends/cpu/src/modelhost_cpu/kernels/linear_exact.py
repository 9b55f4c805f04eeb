"""Matrix products in float32: every weight is decoded, products are added in order of the columns."""

from __future__ import annotations

from modelhost_cpu.encodings.packing import ROWS, Packing, decode_columns, padded_columns
from modelhost_cpu.language.types import f32, vector
from modelhost_cpu.language.value import Value
from modelhost_cpu.native.kernel import Kernel
from modelhost_cpu.program.builder import ProgramBuilder
from modelhost_cpu.weights import group_bytes

from .projection import Projection

_VECTOR = vector(f32, ROWS)
_TILE = 6


def call_linear_exact(b: ProgramBuilder, p: Projection) -> None:
    """Append the projection of all rows."""
    b.call(
        linear_exact,
        p.x.rows,
        {"x": p.x, "y": p.y, "weight": p.weight, "bias": p.bias},
        columns=-(-p.outputs // ROWS),
        scratch=padded_columns(p.packing, p.inputs) * 4 * ROWS,
        detail=p.detail,
        weight_bytes=p.weight_bytes,
        packing=p.packing,
        outputs=p.outputs,
        inputs=p.inputs,
        x_stride=p.x.stride,
        y_stride=p.y.stride,
    )


def linear_exact(k: Kernel, packing: Packing, outputs: int, inputs: int, x_stride: int, y_stride: int) -> None:
    """Kernel: sixteen outputs of all rows; the chunk says which sixteen."""
    group = k.chunk
    weight = k.pointer("weight") + group * group_bytes(packing, inputs)
    panel = weight if packing.name == "f32" else _decode(k, packing, weight, inputs)
    x, y = k.pointer("x"), k.pointer("y") + group * (4 * ROWS)
    whole = k.work - k.work % _TILE
    count = k.minimum(k.constant(k.work.type, outputs) - group * ROWS, k.constant(k.work.type, ROWS))
    start = k.load_masked(_VECTOR, k.pointer("bias") + group * (4 * ROWS), count) if k.has("bias") else k.zero(_VECTOR)
    for first, last, tile in ((k.integer(0), whole, _TILE), (whole, k.work, 1)):
        with k.loop(first, last, tile) as row:
            sums = [k.variable(start) for _ in range(tile)]
            with k.loop(0, inputs) as column:
                values = k.load(_VECTOR, panel, column * (4 * ROWS), align=64)
                for index, total in enumerate(sums):
                    factor = k.load(f32, x, (row + index) * x_stride + column * 4).splat(ROWS)
                    total.set(k.fma(factor, values, total.value))
            for index, total in enumerate(sums):
                k.store_masked(total.value, y + (row + index) * y_stride, count)


def _decode(k: Kernel, packing: Packing, weight: Value, inputs: int) -> Value:
    """A panel of values ``[inputs][16]`` in scratch memory."""
    decode_columns(k, packing, weight, inputs, k.scratch)
    return k.scratch
