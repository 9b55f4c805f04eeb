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

from .gated_amx import call_gated_amx, gating_of
from .linear_amx import call_linear_amx
from .linear_dense import call_linear_dense
from .linear_exact import call_linear_exact
from .linear_int8 import call_linear_int8
from .projection import Projection
from .quantize import quantized
from .shape import flat


@lowers(ops.linear)
def lower_linear(b: ProgramBuilder, node: Node) -> None:
    """In float32 if the program is exact, else by the rows' origin."""
    p = _projection(b, node)
    if b.options.exact:
        _call_float32(b, p)
        return
    prompt, generated = prompt_and_generated(b, p.x)
    gating = gating_of(b, node)
    if prompt is not None and not (gating and call_gated_amx(b, p, prompt, gating)):
        call_linear_amx(b, p, prompt)
    if generated is not None:
        _call_rows(b, p, generated)


def _projection(b: ProgramBuilder, node: Node) -> Projection:
    x, weight, bias = node.operands
    shape: Any = weight.shape  # type: ignore[union-attr]
    outputs, inputs = shape
    source, target = flat(b, b.view(x), inputs), flat(b, b.output(node.outputs[0]), outputs)  # type: ignore[arg-type]
    return Projection(
        source, target, b.parameter(weight), outputs, inputs, b.values(bias) if bias is not None else None
    )


def _call_float32(b: ProgramBuilder, p: Projection) -> None:
    if p.stored is not None and isinstance(p.packing, Plain):
        call_linear_dense(b, p, RowSet(p.x.rows))
    else:
        call_linear_exact(b, p)


def _call_rows(b: ProgramBuilder, p: Projection, rows: RowSet) -> None:
    """The rows of a set, by vector instructions: in 8-bit integers if the weights are quantised."""
    if isinstance(p.packing, Quantized):
        call_linear_int8(b, p, rows)
        return
    if p.stored is None:
        quantized(b, p.x, rows)  # memory is being planned, for whatever the encoding will be
    call_linear_dense(b, p, rows)
