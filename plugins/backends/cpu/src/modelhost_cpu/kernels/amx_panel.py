"""A panel of 32 rows of a matrix times packed rows of activations, in AMX tiles.

Source of the blocking: Goto and van de Geijn, Anatomy of High-Performance Matrix Multiplication, 2008.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from modelhost_cpu.encodings.packing import ROWS, Packing
from modelhost_cpu.language import tiles
from modelhost_cpu.language.types import f32, i32, vector
from modelhost_cpu.language.value import Value
from modelhost_cpu.native.kernel import Kernel

from .bfloat16_tiles import LINE, PAIR, decode_step

PANEL = 2 * ROWS
"""Rows of the matrix in a panel: two groups."""
SLAB = 512
"""The most rows of activations, so that they and their sums stay in a core's second cache."""
SUM_BYTES = PANEL * 4
"""Bytes of the sums of a row of activations."""
_STEPS = 16
"""The most steps at a time, so that the decoded groups stay in the nearest cache."""
_STEP_BYTES = 2 * tiles.TILE_BYTES
_SUMS = _STEPS * _STEP_BYTES
_CONFIGURATION = _SUMS + SLAB * SUM_BYTES
PANEL_SCRATCH = _CONFIGURATION + tiles.CONFIGURATION_BYTES
"""Bytes of scratch memory that :func:`multiply_panel` uses from the start."""
VECTOR = vector(f32, ROWS)


@dataclass(frozen=True, slots=True)
class Place:
    """Where the sums of 32 rows and 32 outputs are.

    Attributes:
        address: of the first row.
        stride: bytes from row to row.
        second_rows: bytes to row 16.
        second_group: bytes to output 16.
    """

    address: Value
    stride: Value
    second_rows: Value
    second_group: Value

    def choose(self, k: Kernel, condition: Value, other: Place) -> Place:
        """This place where ``condition`` is set, else another."""
        pairs = zip(self._fields(), other._fields(), strict=True)
        return Place(*(k.select(condition, *pair) for pair in pairs))

    def _fields(self) -> tuple[Value, ...]:
        return self.address, self.stride, self.second_rows, self.second_group

    def tiles(self, k: Kernel, two: Value) -> Iterator[tuple[int, Value]]:
        """Number and address of each tile of sums; of those of row 16 and on if ``two`` is set."""
        for tile in range(2):
            yield tile, self.address + self.second_group * tile
        with k.when(two):
            for tile in range(2):
                yield 2 + tile, self.address + self.second_rows + self.second_group * tile


def four_tiles(k: Kernel, address: Value) -> Place:
    """Tiles one after the other."""
    return Place(address, k.integer(LINE), k.integer(2 * tiles.TILE_BYTES), k.integer(tiles.TILE_BYTES))


def sum_line(sums: Place, row: Value, group: int) -> Value:
    """The address of 16 sums of row ``row`` in four tiles that are one after the other."""
    return sums.address + (row // ROWS) * (2 * tiles.TILE_BYTES) + row % ROWS * LINE + group * tiles.TILE_BYTES


@dataclass(frozen=True, slots=True)
class Rows:
    """Up to 32 rows of activations.

    Attributes:
        first: number of the first one.
        count: how many.
        sums: where their sums are between the steps, as four tiles.
    """

    first: Value
    count: Value
    sums: Place


class Results(Protocol):
    """What the sums start with and where they go."""

    def start(self, rows: Rows, is_first: Value) -> Place:
        """Write the code that makes the values to start with where ``is_first`` is set; where they are then."""
        ...

    def end(self, rows: Rows) -> Place:
        """Where the sums are to be stored in the end."""
        ...

    def prefetch(self, rows: Rows, step: Value, is_first: Value, is_last: Value) -> None:
        """Write code that asks for memory that is needed soon.

        Args:
            rows: that are being multiplied.
            step: number of the step, among those that the nearest cache holds.
            is_first: whether those are the first steps of the rows.
            is_last: whether they are the last ones.
        """
        ...

    def finish(self, rows: Rows) -> None:
        """Write the code that follows when the sums are stored."""
        ...


@dataclass(frozen=True, slots=True)
class Panel:
    """Two groups of rows of a matrix.

    Attributes:
        packing: of the matrix.
        groups: addresses of their first blocks.
        steps: of 32 columns.
        columns: of the matrix if they may not be a multiple of 32.
    """

    packing: Packing
    groups: Sequence[Value]
    steps: Value
    columns: Value | None

    def decode(self, k: Kernel, step: Value, target: Value) -> None:
        """Write the code that decodes a step to two tiles."""
        for index, group in enumerate(self.groups):
            decode_step(k, self.packing, group, step, self.columns, target + index * tiles.TILE_BYTES)


def multiply_panel(k: Kernel, panel: Panel, x: Value, span: tuple[Value, Value], results: Results) -> None:
    """Write the code that multiplies two groups with packed rows.

    Args:
        panel: the groups.
        x: address of the first row's packed columns; see :func:`~.bfloat16_tiles.packed_rows`.
        span: first row and last row, which is excluded; at most :data:`SLAB` rows.
        results: where the sums go.
    """
    first, last = span
    shape = k.variable(k.integer(0))
    parts = (panel.steps + (_STEPS - 1)) // _STEPS
    at_once = (panel.steps + parts - 1) // parts
    with k.loop(0, panel.steps, at_once) as start, k.loop(first, last, PAIR) as row:
        count = k.minimum(last - row, k.integer(PAIR))
        with k.unless(shape.value.equals(count)):
            _configure(k, count)
            shape.set(count)
        rows = Rows(row, count, four_tiles(k, k.scratch + (_SUMS + (row - first) * SUM_BYTES)))
        steps = start, k.minimum(start + at_once, panel.steps)
        _multiply(k, panel, rows, x + (row - first) * panel.steps * LINE, steps, row.equals(first), results)
    tiles.release(k)


def _configure(k: Kernel, count: Value) -> None:
    """Tiles 0 to 3 are sums: of rows 0 to 15 and of rows 16 to 31, each with two groups. 4 and 5 are rows, 6 and 7
    groups. Tiles of rows that are not there are not used.
    """
    place = k.scratch + _CONFIGURATION
    words = memoryview(tiles.configuration([ROWS] * 8)).cast("i")
    k.store(k.vector(i32, list(words)), place, align=LINE)
    upper = k.minimum(count, k.integer(ROWS))
    lower = k.maximum(count - ROWS, k.integer(1))
    for tile, rows in ((0, upper), (1, upper), (2, lower), (3, lower), (4, upper), (5, lower)):
        tiles.set_rows(k, place, tile, rows)
    tiles.configure(k, place)


def _multiply(
    k: Kernel, panel: Panel, rows: Rows, x: Value, steps: tuple[Value, Value], decode: Value, results: Results
) -> None:
    """The steps from ``steps[0]`` to ``steps[1]``, decoded on the way if ``decode`` is set.

    The rows are not kept in the nearest cache, so that the groups stay there.
    """
    start, stop = steps
    is_first, is_last = start.equals(0), stop.equals(panel.steps)
    two = rows.count > ROWS
    begin = results.start(rows, is_first).choose(k, is_first, rows.sums)
    for tile, address in begin.tiles(k, two):
        tiles.load(k, tile, address, begin.stride, once=True)
    with k.loop(start, stop) as step:
        right = k.scratch + (step - start) * _STEP_BYTES
        results.prefetch(rows, step - start, is_first, is_last)
        with k.when(decode):
            panel.decode(k, step, right)
        _step(k, x + step * rows.count * LINE, right, two)
    end = results.end(rows).choose(k, is_last, rows.sums)
    for tile, address in end.tiles(k, two):
        tiles.store(k, tile, address, end.stride)
    with k.when(is_last):
        results.finish(rows)


def _step(k: Kernel, left: Value, right: Value, two: Value) -> None:
    tiles.load(k, 4, left, once=True)
    with k.when(two):
        tiles.load(k, 5, left + tiles.TILE_BYTES, once=True)
    tiles.load(k, 6, right)
    tiles.load(k, 7, right + tiles.TILE_BYTES)
    tiles.multiply_bf16(k, 0, 4, 6)
    tiles.multiply_bf16(k, 1, 4, 7)
    with k.when(two):
        tiles.multiply_bf16(k, 2, 5, 6)
        tiles.multiply_bf16(k, 3, 5, 7)
