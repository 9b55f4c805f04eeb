"""Matrix products of prompt rows in bfloat16, accumulated in float32 in AMX tiles.

The rows are packed once for all matrices that they are multiplied with. A chunk decodes a panel of 32 rows of the
matrix, some columns at a time, and multiplies it with a slab of rows while it is in the nearest cache. Products are
added in order of the columns, so a row's sums do not depend on the other rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from modelhost_cpu.encodings.packing import ROWS, Packing
from modelhost_cpu.language.value import Value
from modelhost_cpu.native.kernel import Kernel
from modelhost_cpu.program.builder import ProgramBuilder
from modelhost_cpu.program.rows import RowSet
from modelhost_cpu.program.views import Slot

from .amx_panel import PANEL, PANEL_SCRATCH, SLAB, SUM_BYTES, VECTOR, Panel, Place, Rows, multiply_panel, sum_line
from .bfloat16_tiles import COLUMNS, LINE, PAIR, blocked_columns, packed_rows
from .projection import Projection
from .row_number import row_number

LINEAR_SCRATCH = PANEL_SCRATCH + SUM_BYTES
"""Bytes of scratch memory that :func:`linear_amx` uses."""


def call_linear_amx(b: ProgramBuilder, p: Projection, rows: RowSet) -> None:
    """Append the projection of the rows of a set. The target must have ``amx-bf16``.

    A wide matrix takes a call for every block of columns, which adds to what the calls before it have left in ``y``.
    """
    width = blocked_columns(p.inputs)
    operands: dict[str, Any] = {"x": packed_rows(b, p.x, rows), "y": p.y, "bias": p.bias or Slot()}
    operands |= {"rows": rows.indices or Slot(), "weight": p.weight}
    numbers = {"outputs": p.outputs, "inputs": p.inputs, "width": width}
    numbers |= {"group_bytes": p.group_bytes, "y_stride": p.y.stride}
    for first in range(0, p.inputs, width):
        every = {**numbers, "first": first}
        b.call(
            linear_amx,
            rows.count,
            {**operands, **{name: Slot(offset=number) for name, number in every.items()}},
            grain=SLAB,
            columns=-(-p.outputs // PANEL),
            scratch=LINEAR_SCRATCH,
            detail=p.detail,
            weight_bytes=p.weight_bytes if first == 0 else 0,
            packing=p.packing,
            ragged=p.inputs % COLUMNS != 0,
        )


def linear_amx(k: Kernel, packing: Packing, ragged: bool) -> None:
    """Kernel: a panel of the matrix times a slab of packed rows; a block of columns of both.

    Slots: the addresses ``x`` (packed rows), ``y``, ``weight``, ``bias`` and ``rows``, the last two null where there is
    no bias and where the rows are all rows; ``outputs`` and ``inputs`` of the matrix, ``width`` of a block, ``first``
    column of this one, ``group_bytes``, ``y_stride`` in bytes. ``ragged`` says that 32 does not divide the inputs.
    """
    panels = (k.number("outputs") + (PANEL - 1)) // PANEL
    number = k.chunk % panels
    span = k.span(k.chunk // panels, SLAB)
    first = k.number("first")
    columns = k.minimum(k.number("inputs") - first, k.number("width"))
    steps = (columns + (COLUMNS - 1)) // COLUMNS
    x = k.pointer("x") + (k.work * first * 2 + span[0] * steps * LINE)
    results = _Results(k, number * PANEL)
    group = k.pointer("weight") + number * k.number("group_bytes") * 2 + first // packing.block * packing.block_bytes
    groups = group, k.select(results.count(1) > 0, group + k.number("group_bytes"), group)
    multiply_panel(k, Panel(packing, groups, steps, columns if ragged else None), x, span, results)


class _Results:
    """The results of a panel in memory. What is there is added to unless the block of columns is the first."""

    def __init__(self, k: Kernel, first_output: Value) -> None:
        self._k = k
        self._first_output = first_output
        self._accumulate = k.number("first") > 0
        self._bias = self._load_bias(k.scratch + PANEL_SCRATCH)

    def count(self, group: int) -> Value:
        """How many outputs there are from group ``group`` on; may be above 16, or negative."""
        return self._k.number("outputs") - self._first_output - group * ROWS

    def _load_bias(self, place: Value) -> Place:
        """The bias, or zeros, as the sums of any rows."""
        k = self._k
        bias = k.pointer("bias")
        given = bias.to_integer() > 0
        for group in range(2):
            count = k.select(given, self.count(group), k.integer(0))
            value = k.load_masked(VECTOR, bias + (self._first_output + group * ROWS) * 4, count)
            k.store(value, place, group * LINE, align=LINE)
        return Place(place, k.integer(0), k.integer(0), k.integer(LINE))

    def _row(self, row: Value) -> Value:
        k = self._k
        return k.pointer("y") + row_number(k, row) * k.number("y_stride") + self._first_output * 4

    def _place(self, row: Value) -> Place:
        """The place of the rows from row ``row`` on, if they follow one another."""
        k = self._k
        stride = k.number("y_stride")
        return Place(self._row(row), stride, stride * ROWS, k.integer(LINE))

    def _direct(self, rows: Rows) -> Value:
        """Whether tiles can be stored: the panel is whole and the rows follow one another."""
        whole, last = self.count(0) >= PANEL, rows.count - 1
        first, final = (row_number(self._k, row) for row in (rows.first, rows.first + last))
        return whole & (final - first).equals(last)

    def start(self, rows: Rows, is_first: Value) -> Place:
        k = self._k
        direct = self._direct(rows)
        with k.when(is_first & self._accumulate), k.unless(direct):
            for target, line, lanes in self._each(rows):
                k.store(k.load_masked(VECTOR, target, lanes), line, align=LINE)
        earlier = self._place(rows.first).choose(k, direct, rows.sums)
        return earlier.choose(k, self._accumulate, self._bias)

    def end(self, rows: Rows) -> Place:
        return self._place(rows.first).choose(self._k, self._direct(rows), rows.sums)

    def prefetch(self, rows: Rows, step: Value, is_first: Value, is_last: Value) -> None:
        """Two rows at every step: of these rows, which will be written, or of the next ones, which will be read first.

        The places of rows that do not follow one another are wrong, which does no harm.
        """
        k = self._k
        following = k.minimum(rows.first + PAIR, k.work - 1)
        with k.when(k.select(self._accumulate, is_first, is_last)):
            place = self._place(k.select(self._accumulate, following, rows.first))
            for row in range(2):
                for line in range(2):
                    k.prefetch(place.address + (step * 2 + row) * place.stride + line * LINE, write=True)

    def finish(self, rows: Rows) -> None:
        with self._k.unless(self._direct(rows)):
            for target, line, lanes in self._each(rows):
                self._k.store_masked(self._k.load(VECTOR, line, align=LINE), target, lanes)

    def _each(self, rows: Rows) -> Iterator[tuple[Value, Value, Value]]:
        """Where 16 results are in ``y``, where their sums are, and how many they are."""
        with self._k.loop(0, rows.count) as index:
            target = self._row(rows.first + index)
            for group in range(2):
                yield target + group * LINE, sum_line(rows.sums, index, group), self.count(group)
