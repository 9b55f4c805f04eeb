"""Places the boxes of a small directed graph in rows, for drawing.

The method of Sugiyama, Tagawa and Toda (Methods for Visual Understanding of Hierarchical System Structures, 1981):
rows by longest path, edges over several rows pass through places of their own, the order within a row by the mean place
of neighbours; then places move towards their neighbours while they keep their order and distance.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

_SWEEPS = 12


@dataclass(frozen=True)
class Layout:
    """Where boxes and edges go.

    Attributes:
        rows: row of each box.
        centres: horizontal centre of each box.
        routes: ``(row, x)`` of every place that each edge passes, its ends included.
        width: from 0 to the right end of the last box.
    """

    rows: Mapping[int, int]
    centres: Mapping[int, float]
    routes: Mapping[tuple[int, int], list[tuple[int, float]]]
    width: float


def place(widths: Sequence[float], edges: Sequence[tuple[int, int]], *, gap: float, thread: float) -> Layout:
    """Place boxes.

    Args:
        widths: of each box.
        edges: ``(from, to)``; every edge leads to a box of a higher number.
        gap: least distance of boxes in a row.
        thread: the width that an edge takes in a row that it passes.
    """
    rows = _rows(len(widths), edges)
    sizes: dict[object, float] = dict(enumerate(widths))
    grid: list[list[object]] = [[] for _ in range(max(rows.values(), default=0) + 1)]
    for box, row in rows.items():
        grid[row].append(box)
    links: list[tuple[object, object]] = []
    chains: dict[tuple[int, int], list[object]] = {}
    for start, end in edges:
        threads: list[object] = [(start, end, row) for row in range(rows[start] + 1, rows[end])]
        for item, row in zip(threads, range(rows[start] + 1, rows[end]), strict=True):
            grid[row].append(item)
            sizes[item] = thread
        chains[start, end] = [start, *threads, end]
        links += pairwise(chains[start, end])
    above, below = _neighbours(links)
    for sweep in range(_SWEEPS):
        _order(grid, below if sweep % 2 else above, reverse=bool(sweep % 2))
    centres = _straighten(grid, sizes, above, below, gap)
    left = min((centres[item] - sizes[item] / 2 for row in grid for item in row), default=0.0)
    right = max((centres[item] + sizes[item] / 2 for row in grid for item in row), default=0.0)
    at = {item: (row, centres[item] - left) for row, items in enumerate(grid) for item in items}
    routes = {edge: [at[item] for item in chain] for edge, chain in chains.items()}
    return Layout(rows, {box: at[box][1] for box in rows}, routes, right - left)


def _rows(count: int, edges: Sequence[tuple[int, int]]) -> dict[int, int]:
    """The longest path to each box; boxes without one move down to just above their first reader."""
    rows = dict.fromkeys(range(count), 0)
    for start, end in sorted(edges):
        rows[end] = max(rows[end], rows[start] + 1)
    readers: dict[int, list[int]] = {}
    reached = {end for _, end in edges}
    for start, end in edges:
        readers.setdefault(start, []).append(end)
    for box in reversed(range(count)):
        if box not in reached and box in readers:
            rows[box] = min(rows[reader] for reader in readers[box]) - 1
    return rows


Links = Mapping[object, list[object]]


def _neighbours(links: Sequence[tuple[object, object]]) -> tuple[Links, Links]:
    above: dict[object, list[object]] = {}
    below: dict[object, list[object]] = {}
    for start, end in links:
        below.setdefault(start, []).append(end)
        above.setdefault(end, []).append(start)
    return above, below


def _order(grid: list[list[object]], neighbours: Links, *, reverse: bool) -> None:
    """Sort every row by the mean place of the neighbours in the row sorted before."""
    for row in reversed(grid) if reverse else grid:
        places = {item: index for other in grid for index, item in enumerate(other)}

        def mean(item: object, places: dict[object, int] = places) -> float:
            found = [places[other] for other in neighbours.get(item, [])]
            return sum(found) / len(found) if found else places[item]

        row.sort(key=mean)


def _straighten(
    grid: list[list[object]], sizes: Mapping[object, float], above: Links, below: Links, gap: float
) -> dict[object, float]:
    centres: dict[object, float] = {}
    for row in grid:
        left = 0.0
        for item in row:
            centres[item] = left + sizes[item] / 2
            left += sizes[item] + gap
    for sweep in range(4 * _SWEEPS):
        for row in reversed(grid) if sweep % 2 else grid:
            wanted = [_wish(item, centres, above if sweep % 2 == 0 else below) for item in row]
            for item, x in zip(row, _apart(wanted, [sizes[item] for item in row], gap), strict=True):
                centres[item] = x
    return centres


def _wish(item: object, centres: Mapping[object, float], neighbours: Links) -> float:
    found = [centres[other] for other in neighbours.get(item, [])]
    return sum(found) / len(found) if found else centres[item]


def _apart(wanted: Sequence[float], sizes: Sequence[float], gap: float) -> list[float]:
    """The places nearest to ``wanted``, in least squares, that keep order and distance (pool adjacent violators)."""
    offsets = [0.0]
    for left, right in pairwise(sizes):
        offsets.append(offsets[-1] + left / 2 + gap + right / 2)
    blocks: list[tuple[float, int]] = []
    for want, offset in zip(wanted, offsets, strict=False):
        total, count = want - offset, 1
        while blocks and blocks[-1][0] / blocks[-1][1] > total / count:
            earlier, members = blocks.pop()
            total, count = total + earlier, count + members
        blocks.append((total, count))
    flat = [total / count for total, count in blocks for _ in range(count)]
    return [x + offset for x, offset in zip(flat, offsets, strict=False)]
