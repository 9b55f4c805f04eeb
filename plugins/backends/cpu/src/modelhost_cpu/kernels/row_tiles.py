"""What products of rows with packed matrices share: chunks of groups, tiles of rows, and where results go.

Shapes are slots, so that one kernel serves all matrices of an encoding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from modelhost_cpu.encodings.packing import ROWS
from modelhost_cpu.language.function import Variable
from modelhost_cpu.language.types import f32, lanes_of, vector
from modelhost_cpu.language.value import Value
from modelhost_cpu.native.kernel import Kernel
from modelhost_cpu.program.builder import ProgramBuilder
from modelhost_cpu.program.rows import RowSet
from modelhost_cpu.program.views import Slot, View

from .projection import Projection
from .row_number import row_number

_GROUPS_OF_ONE_ROW = 4
"""Groups that a single row is multiplied with at a time: several streams of weights hide the latency of memory."""
_PREFETCH_BYTES = {1: 4096, _GROUPS_OF_ONE_ROW: 2048}
"""How far ahead weights are asked for, by the number of streams that are read in turns."""
_LINE_BYTES = 64
_CHUNK_BYTES = 128 << 10
_FEWEST_CHUNKS = 4

Sums = list[list[list[Variable]]]
"""``[group][row]``: the results of a group as vectors that follow each other."""
Accumulate = Callable[[Kernel, Sequence[Value], Sequence[Value], Sums], None]
"""``(k, groups, rows, sums)``: add the products of the groups and rows at these addresses to ``sums``."""


def call_product(b: ProgramBuilder, emit: Callable[..., None], p: Projection, x: View, rows: RowSet) -> None:
    """Append a call of a kernel of products.

    Args:
        emit: the kernel, with the slots of :class:`Chunk`; its constant is ``packing``.
        x: the rows to multiply, in the form that the kernel takes.
        rows: which rows of the results.
    """
    groups = -(-p.outputs // ROWS)
    chunk = groups_of_a_chunk(groups, p.group_bytes, b.options.threads)
    operands: dict[str, Any] = {"x": x, "y": p.y, "weight": p.weight}
    operands |= {"bias": p.bias or Slot(), "rows": rows.indices or Slot()}
    numbers = {"outputs": p.outputs, "inputs": p.inputs, "group_bytes": p.group_bytes, "chunk": chunk}
    numbers |= {"x_stride": x.stride, "y_stride": p.y.stride}
    b.call(
        emit,
        rows.count,
        {**operands, **{name: Slot(offset=number) for name, number in numbers.items()}},
        columns=-(-groups // chunk),
        detail=p.detail,
        weight_bytes=p.weight_bytes,
        packing=p.packing,
    )


def groups_of_a_chunk(groups: int, nbytes: int, threads: int) -> int:
    """Groups of ``nbytes`` in a chunk, so that its weights stay in a core's cache while it works on many rows."""
    fewest = _FEWEST_CHUNKS if threads > 1 else 1
    chunks = min(max(-(-groups * nbytes // _CHUNK_BYTES), fewest), groups)
    chunk = -(-groups // chunks)
    rounded = -(-chunk // _GROUPS_OF_ONE_ROW) * _GROUPS_OF_ONE_ROW
    return rounded if -(-groups // rounded) >= 2 * fewest else chunk


class Chunk:
    """What the kernel of a product works on: all rows of a set and some groups of outputs.

    Slots: the addresses ``x``, ``y``, ``weight``, ``bias`` and ``rows``, the last two null where there is no bias and
    where the rows are all rows; ``outputs`` and ``inputs`` of the matrix, ``group_bytes``, ``chunk`` (groups in one),
    ``x_stride`` and ``y_stride`` in bytes.

    Args:
        compact: ``x`` has only the rows of the set.

    Attributes:
        first: number of the first group.
        last: number after the last one.
    """

    def __init__(self, k: Kernel, compact: bool) -> None:
        self._k = k
        self._compact = compact
        self.first = k.chunk * k.number("chunk")
        self.last = k.minimum(self.first + k.number("chunk"), (k.number("outputs") + (ROWS - 1)) // ROWS)

    def weight(self, group: Value) -> Value:
        """The address of a group."""
        return self._k.pointer("weight") + group * self._k.number("group_bytes")

    def source(self, row: Value) -> Value:
        """The address in ``x`` of a row of the set."""
        number = row if self._compact else row_number(self._k, row)
        return self._k.pointer("x") + number * self._k.number("x_stride")

    def target(self, row: Value) -> Value:
        """The address in ``y`` of a row of the set."""
        return self._k.pointer("y") + row_number(self._k, row) * self._k.number("y_stride")

    def bias(self, group: Value, lanes: int) -> list[Value]:
        """The bias of a group, or zeros, as vectors that follow each other. A bias is filled up to whole groups."""
        k, kind = self._k, vector(f32, lanes)
        places = range(0, ROWS, lanes)
        values, bias = [k.variable(k.zero(kind)) for _ in places], k.pointer("bias")
        with k.unless(bias.to_integer().equals(0)):
            for place, value in zip(places, values, strict=True):
                value.set(k.load(kind, bias, (group * ROWS + place) * 4))
        return [value.value for value in values]

    def store(self, results: Sequence[Value], targets: Sequence[Value], first: Value) -> None:
        """Write outputs ``first`` and on of some rows, as many as there are."""
        k, lanes = self._k, lanes_of(results[0].type)
        count = k.number("outputs") - first
        whole = count >= lanes
        with k.when(whole):
            for result, target in zip(results, targets, strict=True):
                k.store(result, target, first * 4)
        with k.unless(whole), k.loop(0, count) as lane:
            for result, target in zip(results, targets, strict=True):
                k.store(result.lane(lane), target, (first + lane) * 4)


def multiply_rows(k: Kernel, chunk: Chunk, sizes: tuple[int, ...], lanes: int, accumulate: Accumulate) -> None:
    """Write the code that multiplies the rows of the set with the groups of a chunk.

    Args:
        sizes: of the tiles of rows that share the decoding of the weights, falling; the last is 1.
        lanes: of the vectors of results.
        accumulate: writes the products of a tile with some groups.
    """
    for size, rows in _row_tiles(k, sizes):
        sources, targets = [chunk.source(row) for row in rows], [chunk.target(row) for row in rows]
        for groups in _each_groups(k, chunk, _GROUPS_OF_ONE_ROW if size == 1 else 1):
            starts = [chunk.bias(group, lanes) for group in groups]
            sums = [[[k.variable(part) for part in start] for _ in rows] for start in starts]
            accumulate(k, [chunk.weight(group) for group in groups], sources, sums)
            for group, of_group in zip(groups, sums, strict=True):
                for index, parts in enumerate(zip(*of_group, strict=True)):
                    chunk.store([part.value for part in parts], targets, group * ROWS + index * lanes)


def prefetch(k: Kernel, weights: Value, nbytes: int, streams: int) -> None:
    """Ask for ``nbytes`` of weights that will be read soon; ``streams`` of them are read in turns."""
    for line in range(0, nbytes, _LINE_BYTES):
        k.prefetch(weights + (_PREFETCH_BYTES[streams] + line))


def _row_tiles(k: Kernel, sizes: tuple[int, ...]) -> Iterator[tuple[int, list[Value]]]:
    """Loops over the rows in tiles: how many a tile has, and their numbers in the set.

    Where fewer rows are left than a tile has but more than the next smaller one, the last row comes several times.
    """
    start = k.integer(0)
    for size, smaller in zip(sizes, (*sizes[1:], 0), strict=True):
        left = k.maximum(k.work - start, k.integer(0))
        stop = start + (left + (size - 1 - smaller)) // size * size
        with k.loop(start, stop, size) as first:
            yield size, [k.minimum(first + index, k.work - 1) for index in range(size)]
        start = stop


def _each_groups(k: Kernel, chunk: Chunk, at_once: int) -> Iterator[list[Value]]:
    """Loops over the groups of a chunk, ``at_once`` at a time and one by one at the end."""
    first = chunk.first
    if at_once > 1:
        whole = chunk.last - (chunk.last - first) % at_once
        with k.loop(first, whole, at_once) as group:
            yield [group + index for index in range(at_once)]
        first = whole
    with k.loop(first, chunk.last) as group:
        yield [group]
