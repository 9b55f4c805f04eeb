"""Look-up of rows in encoded tables."""

from __future__ import annotations

from typing import Any

from modelhost.api.backend import Node
from modelhost.graph import ops
from modelhost_cpu.encodings.packing import ROWS, Packing
from modelhost_cpu.encodings.plain import Plain
from modelhost_cpu.language.types import f32, i32, i64
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
        scratch=packing.block * ROWS * 4,
        detail=packing.name,
        packing=packing,
        width=y.columns,
    )


def embed(k: Kernel, packing: Packing, width: int) -> None:
    """Kernel: row ``ids[i]`` of the table for every i. Decodes the blocks of its group and keeps one row."""
    ids, table, y = k.pointer("ids"), k.pointer("table"), k.pointer("y")
    first, last = k.span(k.chunk, _GRAIN)
    with k.loop(first, last) as row:
        token = k.load(i32, ids, row * 4).to(i64)
        group, lane = table + (token // ROWS) * group_bytes(packing, width), (token % ROWS) * 4
        with k.loop(0, -(-width // packing.block)) as block:
            for column, values in packing.columns(k, group + block * packing.block_bytes):
                k.store(values, k.scratch, column * 4 * ROWS, align=64)
            target = y + row * (width * 4) + block * (packing.block * 4)
            with k.loop(0, packing.block) as column:
                k.store(k.load(f32, k.scratch + lane, column * (4 * ROWS)), target, column * 4)
