"""Matrix products of float32 rows with weights that are kept as float32, float16 or bfloat16."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from modelhost_cpu.encodings.packing import ROWS
from modelhost_cpu.encodings.plain import Plain
from modelhost_cpu.language.function import Variable
from modelhost_cpu.language.types import f32
from modelhost_cpu.language.value import Value
from modelhost_cpu.machine import Target
from modelhost_cpu.native.kernel import Kernel
from modelhost_cpu.program.builder import ProgramBuilder
from modelhost_cpu.program.rows import RowSet

from .projection import Projection
from .row_tiles import Chunk, Sums, call_product, multiply_rows, prefetch


def call_linear_dense(b: ProgramBuilder, p: Projection, rows: RowSet) -> None:
    """Append the projection of the rows of a set."""
    call_product(b, linear_dense, p, p.x, rows)


def _tile_sizes(target: Target) -> tuple[int, ...]:
    return (8, 4, 1) if target.vector_bits == 512 else (4, 1)


def linear_dense(k: Kernel, packing: Plain) -> None:
    """Kernel: some groups of outputs of all rows of a set. Slots: see :class:`.row_tiles.Chunk`.

    Products are added in order of the columns, rounded once each.
    """
    inputs = k.number("inputs")
    whole, rest = inputs // packing.block, inputs % packing.block

    def accumulate(k: Kernel, groups: Sequence[Value], sources: Sequence[Value], sums: Sums) -> None:
        totals = [[vectors[0] for vectors in of_group] for of_group in sums]
        with k.loop(0, whole) as block:
            _add_block(k, packing, packing.block, groups, sources, totals, block)
        if packing.block > 1:
            with k.when(rest > 0):
                _add_block(k, packing, 1, groups, sources, totals, whole)

    multiply_rows(k, Chunk(k, compact=False), _tile_sizes(k.target), ROWS, accumulate)


def _add_block(
    k: Kernel,
    packing: Plain,
    columns: int,
    groups: Sequence[Value],
    sources: Sequence[Value],
    totals: Sequence[Sequence[Variable]],
    block: Value,
) -> None:
    """Add the products with the first ``columns`` columns of a block of each group."""
    for group, of_group in zip(groups, totals, strict=True):
        address = group + block * packing.block_bytes
        prefetch(k, address, packing.block_bytes, len(groups))
        for column, values in islice(packing.columns(k, address), columns):
            for source, total in zip(sources, of_group, strict=True):
                factor = k.load(f32, source, (block * packing.block + column) * 4, align=4).splat(ROWS)
                total.set(k.fma(factor, values, total.value))
