"""Projections: which kernels compute which rows."""

from __future__ import annotations

from typing import Any

from modelhost.api.backend import Node
from modelhost.graph import ops
from modelhost_cpu.program.builder import ProgramBuilder
from modelhost_cpu.program.lowering import lowers

from .linear_exact import call_linear_exact
from .shape import flat


@lowers(ops.linear)
def lower_linear(b: ProgramBuilder, node: Node) -> None:
    x, weight, bias = node.operands
    shape: Any = weight.shape  # type: ignore[union-attr]
    vector = b.values(bias) if bias is not None else None
    rows, columns = shape
    source, target = flat(b, b.view(x), columns), flat(b, b.output(node.outputs[0]), rows)  # type: ignore[arg-type]
    call_linear_exact(b, source, target, b.parameter(weight), shape, vector)
