"""Matrix products in 8-bit integers: of quantised rows with quantised weights, exact within 32 columns."""

from __future__ import annotations

from collections.abc import Sequence

from modelhost_cpu.encodings.packing import ROWS
from modelhost_cpu.encodings.quantized import Factors, Quantized
from modelhost_cpu.language.function import Variable
from modelhost_cpu.language.value import Value
from modelhost_cpu.machine import Target
from modelhost_cpu.native.kernel import Kernel
from modelhost_cpu.program.builder import ProgramBuilder
from modelhost_cpu.program.rows import RowSet

from .int8_dot import add_scaled, dot_with_record, lanes_of_dot
from .projection import Projection
from .quantize import RECORD_BYTES, quantized
from .row_tiles import Chunk, Sums, call_product, multiply_rows, prefetch

_Decoded = list[tuple[list[Value], Factors]]
"""For every scale of a part: the numbers, four columns in each, and what makes them values."""


def call_linear_int8(b: ProgramBuilder, p: Projection, rows: RowSet) -> None:
    """Append the projection of the rows of a set."""
    call_product(b, linear_int8, p, quantized(b, p.x, rows), rows)


def _tile_sizes(target: Target) -> tuple[int, ...]:
    return (8, 4, 1) if lanes_of_dot(target) == ROWS else (4, 1)


def linear_int8(k: Kernel, packing: Quantized) -> None:
    """Kernel: some groups of outputs of all rows of a set; ``x`` are records. Slots: see :class:`.row_tiles.Chunk`."""
    chunk, lanes = Chunk(k, compact=True), lanes_of_dot(k.target)
    blocks = k.number("inputs") // packing.block

    def accumulate(k: Kernel, groups: Sequence[Value], records: Sequence[Value], sums: Sums) -> None:
        with k.loop(0, blocks) as block:
            places = [group + block * packing.block_bytes for group in groups]
            firsts = range(0, ROWS, lanes)
            common = [[packing.common_factors(k, place, first, lanes) for first in firsts] for place in places]
            with k.loop(0, packing.parts) as part:
                offset = (block * packing.parts + part) * RECORD_BYTES
                activations = [record + offset for record in records]
                for place, factors, of_group in zip(places, common, sums, strict=True):
                    address = packing.part_address(place, part)
                    prefetch(k, address, packing.part_bytes, len(groups))
                    _add_part(k, packing, address, factors, activations, of_group)

    multiply_rows(k, chunk, _tile_sizes(k.target), lanes, accumulate)


def _add_part(
    k: Kernel,
    packing: Quantized,
    part: Value,
    common: Sequence[Factors],
    records: Sequence[Value],
    sums: Sequence[Sequence[Variable]],
) -> None:
    """Add the products of a part of a group with a record of every row."""
    lanes = ROWS // len(common)
    for index, factors in enumerate(common):
        decoded = _decode(k, packing, part, factors, index * lanes, lanes)
        for record, of_row in zip(records, sums, strict=True):
            of_row[index].set(_products(k, packing, decoded, record, of_row[index].value))


def _decode(k: Kernel, packing: Quantized, part: Value, common: Factors, first: int, lanes: int) -> _Decoded:
    """Numbers and factors of rows ``first`` and on of the part at ``part``."""
    quads = list(packing.quads(k, part, first, lanes))
    factors = list(packing.factors(k, common, part, first, lanes))
    count = len(quads) // len(factors)
    return [(quads[index * count : (index + 1) * count], each) for index, each in enumerate(factors)]


def _products(k: Kernel, packing: Quantized, decoded: _Decoded, record: Value, total: Value) -> Value:
    """``total`` plus the products of a part with a record."""
    for index, (quads, factors) in enumerate(decoded):
        half = None if len(decoded) == 1 else index
        product = dot_with_record(k, quads, record, half, packing.offset, sum(packing.planes))
        total = add_scaled(k, total, product, factors, record, half)
    return total
