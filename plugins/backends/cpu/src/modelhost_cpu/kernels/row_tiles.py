"""What products of rows with packed matrices share: chunks of groups, tiles of rows, and where results go.

Shapes are slots, so that one kernel serves all matrices of an encoding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from modelhost_cpu.encodings.packing import ROWS, Packing
from modelhost_cpu.language.function import Variable
from modelhost_cpu.language.types import f32, i32, i64, vector
from modelhost_cpu.language.value import Value
from modelhost_cpu.native.kernel import Kernel
from modelhost_cpu.program.builder import ProgramBuilder
from modelhost_cpu.program.rows import RowSet
from modelhost_cpu.program.views import Slot, View
from modelhost_cpu.weights import StoredWeight, group_bytes

GROUPS_OF_ONE_ROW = 4
"""Groups that a single row is multiplied with at a time: several streams of weights hide the latency of memory."""
_PREFETCH_BYTES = 8192
_LINE_BYTES = 64
_CHUNK_BYTES = 128 << 10
_FEWEST_CHUNKS = 4

Sums = list[list[list[Variable]]]
"""``[group][row]``: the results of a group as vectors that follow each other."""
Accumulate = Callable[[Kernel, Sequence[Value], Sequence[Value], Sums], None]
"""``(k, groups, rows, sums)``: add the products of the groups and rows at these addresses to ``sums``."""


def call_product(
    b: ProgramBuilder,
    emit: Callable[..., None],
    packing: Packing,
    operands: tuple[View, StoredWeight | None, Slot | None, View],
    shape: tuple[int, int],
    rows: RowSet,
) -> None:
    """Append a call of a kernel that :func:`multiply_rows` writes.

    Args:
        emit: the kernel; its constant is ``packing``.
        operands: rows to multiply, matrix, bias and results.
        shape: outputs and inputs of the matrix.
        rows: which rows of the results.
    """
    x, stored, bias, y = operands
    outputs, inputs = shape
    groups, nbytes = -(-outputs // ROWS), group_bytes(packing, inputs)
    chunk = groups_of_a_chunk(groups, nbytes, b.options.threads)
    numbers = {
        "outputs": outputs,
        "inputs": inputs,
        "group_bytes": nbytes,
        "chunk": chunk,
        "x_stride": x.stride,
        "y_stride": y.stride,
    }
    given: dict[str, Any] = {"x": x, "y": y, "bias": bias or Slot(), "rows": rows.indices or Slot()}
    given["weight"] = Slot(offset=stored.address if stored is not None else 0)
    b.call(
        emit,
        rows.count,
        {**given, **{name: Slot(offset=number) for name, number in numbers.items()}},
        columns=-(-groups // chunk),
        detail=f"{packing.name} {outputs}x{inputs}",
        weight_bytes=groups * nbytes,
        packing=packing,
    )


def groups_of_a_chunk(groups: int, nbytes: int, threads: int) -> int:
    """Groups of ``nbytes`` in a chunk, so that its weights stay in a core's cache while it works on many rows."""
    fewest = _FEWEST_CHUNKS if threads > 1 else 1
    chunks = min(max(-(-groups * nbytes // _CHUNK_BYTES), fewest), groups)
    chunk = -(-groups // chunks)
    rounded = -(-chunk // GROUPS_OF_ONE_ROW) * GROUPS_OF_ONE_ROW
    return rounded if -(-groups // rounded) >= 2 * fewest else chunk


def multiply_rows(k: Kernel, sizes: tuple[int, ...], lanes: int, compact: bool, accumulate: Accumulate) -> None:
    """Write a kernel that multiplies all rows of the set with the groups of a chunk.

    Slots: the addresses ``x``, ``y``, ``weight``, ``bias`` and ``rows``, the last two null where there is no bias and
    where the rows are all rows; ``outputs`` and ``inputs`` of the matrix, ``group_bytes``, ``chunk`` (groups in one),
    ``x_stride`` and ``y_stride`` in bytes.

    Args:
        sizes: of the tiles of rows that share the decoding of the weights, falling; the last is 1.
        lanes: of the vectors of results.
        compact: ``x`` has only the rows of the set.
        accumulate: writes the products of a tile with some groups.
    """
    x, y, weight, nbytes = k.pointer("x"), k.pointer("y"), k.pointer("weight"), k.number("group_bytes")
    first = k.chunk * k.number("chunk")
    last = k.minimum(first + k.number("chunk"), (k.number("outputs") + (ROWS - 1)) // ROWS)
    for size, rows in _row_tiles(k, sizes):
        numbers = [_number_of_row(k, row) for row in rows]
        sources = [x + row * k.number("x_stride") for row in (rows if compact else numbers)]
        targets = [y + row * k.number("y_stride") for row in numbers]
        for groups in _each_groups(k, first, last, GROUPS_OF_ONE_ROW if size == 1 else 1):
            sums = [_start(k, group, lanes, size) for group in groups]
            accumulate(k, [weight + group * nbytes for group in groups], sources, sums)
            for group, of_group in zip(groups, sums, strict=True):
                _store(k, of_group, targets, group, lanes)


def prefetch(k: Kernel, weights: Value, nbytes: int, streams: int) -> None:
    """Ask for the ``nbytes`` of weights that one of ``streams`` that are read in turns will come to."""
    for line in range(0, nbytes, _LINE_BYTES):
        k.prefetch(weights + (_PREFETCH_BYTES // streams + line))


def _row_tiles(k: Kernel, sizes: tuple[int, ...]) -> Iterator[tuple[int, list[Value]]]:
    """Loops over the rows ``0 .. work`` in tiles: how many a tile has, and their numbers in the set.

    Where fewer rows are left than a tile has but more than the next smaller one, the last row comes several times.
    """
    start = k.integer(0)
    for size, smaller in zip(sizes, (*sizes[1:], 0), strict=True):
        left = k.maximum(k.work - start, k.integer(0))
        stop = start + (left + (size - 1 - smaller)) // size * size
        with k.loop(start, stop, size) as first:
            yield size, [k.minimum(first + index, k.work - 1) for index in range(size)]
        start = stop


def _each_groups(k: Kernel, first: Value, last: Value, at_once: int) -> Iterator[list[Value]]:
    """Loops over the groups ``first .. last``, ``at_once`` at a time and one by one at the end."""
    if at_once > 1:
        whole = last - (last - first) % at_once
        with k.loop(first, whole, at_once) as group:
            yield [group + index for index in range(at_once)]
        first = whole
    with k.loop(first, last) as group:
        yield [group]


def _number_of_row(k: Kernel, row: Value) -> Value:
    """The number in the whole tensor of a row of the set."""
    number, indices = k.variable(row), k.pointer("rows")
    with k.unless(indices.to_integer().equals(0)):
        number.set(k.load(i32, indices, row * 4).to(i64))
    return number.value


def _start(k: Kernel, group: Value, lanes: int, size: int) -> list[list[Variable]]:
    """The bias of a group for each row of a tile. A bias is filled up to whole groups."""
    kind, places = vector(f32, lanes), range(0, ROWS, lanes)
    sums = [[k.variable(k.zero(kind)) for _ in places] for _ in range(size)]
    bias = k.pointer("bias")
    with k.unless(bias.to_integer().equals(0)):
        start = [k.load(kind, bias, (group * ROWS + place) * 4) for place in places]
        for of_row in sums:
            for total, value in zip(of_row, start, strict=True):
                total.set(value)
    return sums


def _store(k: Kernel, sums: list[list[Variable]], targets: list[Value], group: Value, lanes: int) -> None:
    """Write the results of a group, of the last one only as many as there are."""
    for index in range(ROWS // lanes):
        first = group * ROWS + index * lanes
        count = k.number("outputs") - first
        results = [of_row[index].value for of_row in sums]
        whole = count >= lanes
        with k.when(whole):
            for result, target in zip(results, targets, strict=True):
                k.store(result, target, first * 4)
        with k.unless(whole), k.loop(0, count) as lane:
            for result, target in zip(results, targets, strict=True):
                k.store(result.lane(lane), target, (first + lane) * 4)
