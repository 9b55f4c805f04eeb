"""Look-up of rows in encoded tables."""

from __future__ import annotations

from typing import Any

from modelhost.api.backend import Node
from modelhost.graph import ops
from modelhost_cpu.encodings.packing import ROWS, Packing
from modelhost_cpu.encodings.plain import Plain
from modelhost_cpu.language.types import i32, i64
from modelhost_cpu.native.kernel import Kernel
from modelhost_cpu.program.builder import ProgramBuilder
from modelhost_cpu.program.lowering import lowers
from modelhost_cpu.program.views import Slot
from modelhost_cpu.weights import group_bytes

_GRAIN = 4


@lowers(ops.embed)
def lower_embed(b: ProgramBuilder, node: Node) -> None:
    token_ids, table = node.operands
    stored = b.parameter(table)
    packing: Packing = stored.packing if stored is not None and stored.packing is not None else Plain("f32")
    ids: Any = token_ids
    y = b.output(node.outputs[0])
    b.call(
        embed,
        y.rows,
        {"ids": b.view(ids), "table": Slot(offset=stored.address if stored is not None else 0), "y": y},
        grain=_GRAIN,
        detail=packing.name,
        packing=packing,
        width=y.columns,
    )


def embed(k: Kernel, packing: Packing, width: int) -> None:
    """Kernel: row ``ids[i]`` of the table for every i."""
    ids, table, y = k.pointer("ids"), k.pointer("table"), k.pointer("y")
    first, last = k.span(k.chunk, _GRAIN)
    whole, rest = divmod(width, packing.block)
    with k.loop(first, last) as index:
        token = k.load(i32, ids, index * 4).to(i64)
        group, row = table + (token // ROWS) * group_bytes(packing, width), token % ROWS
        target = y + index * (width * 4)
        with k.loop(0, whole) as block, k.loop(0, packing.block // packing.part) as part:
            values = packing.row(k, group + block * packing.block_bytes, row, part)
            k.store(values, target, (block * packing.block + part * packing.part) * 4)
        if rest:
            values = packing.row(k, group + whole * packing.block_bytes, row)
            for column in range(rest):
                k.store(values.lane(column), target, (whole * packing.block + column) * 4)
