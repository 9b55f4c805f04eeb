"""Projections: which kernels compute which rows."""

from __future__ import annotations

from typing import Any

from modelhost.api.backend import Node
from modelhost.graph import ops
from modelhost_cpu.encodings.plain import Plain
from modelhost_cpu.encodings.quantized import Quantized
from modelhost_cpu.program.builder import ProgramBuilder
from modelhost_cpu.program.lowering import lowers
from modelhost_cpu.program.rows import RowSet, prompt_and_generated
from modelhost_cpu.program.views import Slot, View
from modelhost_cpu.weights import StoredWeight

from .gated_amx import call_gated_amx, gating_of
from .linear_amx import call_linear_amx
from .linear_dense import call_linear_dense
from .linear_exact import call_linear_exact
from .linear_int8 import call_linear_int8
from .quantize import quantized
from .shape import flat


@lowers(ops.linear)
def lower_linear(b: ProgramBuilder, node: Node) -> None:
    x, weight, bias = node.operands
    shape: Any = weight.shape  # type: ignore[union-attr]
    vector = b.values(bias) if bias is not None else None
    rows, columns = shape
    source, target = flat(b, b.view(x), columns), flat(b, b.output(node.outputs[0]), rows)  # type: ignore[arg-type]
    call_linear(b, source, target, b.parameter(weight), shape, vector, gating_of(b, node))


def call_linear(
    b: ProgramBuilder,
    x: View,
    y: View,
    stored: StoredWeight | None,
    shape: tuple[int, int],
    bias: Slot | None,
    gating: Node | None,
) -> None:
    """Append ``y = x @ weight.T + bias`` for all rows of ``x``: in float32 if the program is exact, else by origin.

    Args:
        gating: the activation that gates the halves of ``y``; it may be computed for prompt rows instead of ``y``.
    """
    if b.options.exact:
        _call_linear_float32(b, x, y, stored, shape, bias)
        return
    prompt, generated = prompt_and_generated(b, x)
    if prompt is not None and not (gating and call_gated_amx(b, x, stored, shape, bias, prompt, gating)):
        call_linear_amx(b, x, y, stored, shape, bias, prompt)
    if generated is not None:
        call_linear_rows(b, x, y, stored, shape, bias, generated)


def _call_linear_float32(
    b: ProgramBuilder, x: View, y: View, stored: StoredWeight | None, shape: tuple[int, int], bias: Slot | None
) -> None:
    match stored.packing if stored is not None else None:
        case Plain() as packing:
            call_linear_dense(b, x, y, packing, stored, shape, bias, RowSet(x.rows))
        case _:
            call_linear_exact(b, x, y, stored, shape, bias)


def call_linear_rows(
    b: ProgramBuilder,
    x: View,
    y: View,
    stored: StoredWeight | None,
    shape: tuple[int, int],
    bias: Slot | None,
    rows: RowSet,
) -> None:
    """The rows of a set, by vector instructions: in 8-bit integers if the weights are quantised."""
    match stored.packing if stored is not None else None:
        case Quantized() as packing:
            call_linear_int8(b, x, y, packing, stored, shape, bias, rows)
        case Plain() as packing:
            call_linear_dense(b, x, y, packing, stored, shape, bias, rows)
        case _:
            quantized(b, x, rows)  # memory is being planned
            call_linear_dense(b, x, y, Plain("f32"), stored, shape, bias, rows)
