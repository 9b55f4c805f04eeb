"""Which rows each expert gets: a counting sort of the choices of all tokens, made anew in every step.

A choice is one of the ``top_k`` experts of one row. Choices are numbered in order of the expert, then of the row.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from modelhost_cpu.language.types import i32, i64
from modelhost_cpu.language.value import Value
from modelhost_cpu.native.kernel import Kernel
from modelhost_cpu.program.builder import ProgramBuilder
from modelhost_cpu.program.rows import RowSet
from modelhost_cpu.program.views import Slot, View

from .row_number import row_number

_COUNT_BYTES = 64
_SHARE_BYTES = 12
_CHUNKS_OF_A_THREAD = 16


@dataclass(frozen=True, slots=True)
class ExpertLists:
    """The choices of a set of rows.

    Attributes:
        rows: the set.
        shares: int32, how many experts have any rows, and from byte 64 on for each of those its number, the number of
            its first choice and how many it has.
        sources: int32, the number in the whole tensor of each choice's row.
        places: int32, the number of each row's ``top_k`` choices.
        choices: how many.
        top_k: choices of a row.
        chunks: that work on all experts is cut into.
    """

    rows: RowSet
    shares: View
    sources: View
    places: View
    choices: Slot
    top_k: int
    chunks: int

    @property
    def slots(self) -> dict[str, Slot | View]:
        """The slots that :func:`each_task` needs."""
        return {"shares": self.shares, "chunks": Slot(offset=self.chunks)}

    def memory(self, b: ProgramBuilder, row_bytes: int) -> View:
        """Memory of ``row_bytes`` for each choice."""
        return b.temporary(self.places.symbol, self.places.rows.scale * self.top_k * row_bytes)


def expert_lists(b: ProgramBuilder, ids: View, rows: RowSet, experts: int) -> ExpertLists:
    """Append the sort of ``ids``, int32 ``[rows, top_k]``."""
    top_k, scale = ids.columns, ids.rows.scale
    shares = b.temporary(ids.symbol, (_COUNT_BYTES + _SHARE_BYTES * top_k) * scale)
    sources, places = (replace(b.temporary(ids.symbol, 4 * top_k * scale), rows=ids.rows) for _ in range(2))
    numbers = {"experts": experts, "top_k": top_k, "stride": ids.stride}
    b.call(
        sort_choices,
        rows.count,
        {
            "ids": ids,
            "rows": rows.indices or Slot(),
            "shares": shares,
            "sources": sources,
            "places": places,
            **{name: Slot(offset=number) for name, number in numbers.items()},
        },
        scratch=4 * experts,
    )
    count = replace(rows.count, scale=rows.count.scale * top_k, offset=rows.count.offset * top_k)
    chunks = _CHUNKS_OF_A_THREAD * b.options.threads if b.options.threads > 1 else 1
    return ExpertLists(rows, shares, sources, places, count, top_k, chunks)


def sort_choices(k: Kernel) -> None:
    """Kernel: see :class:`ExpertLists`. Slots: ``ids``, ``rows`` (null for all), the lists, ``experts``, ``top_k`` and
    ``stride`` of ``ids`` in bytes. Scratch memory takes a number for each expert.
    """
    ends = k.scratch
    with k.loop(0, k.number("experts")) as expert:
        k.store(k.constant(i32, 0), ends, expert * 4)
    for _, _, _, expert in _each_choice(k):
        k.store(k.load(i32, ends, expert * 4) + 1, ends, expert * 4)
    _share(k, ends)
    for row, number, choice, expert in _each_choice(k):
        place = k.load(i32, ends, expert * 4)
        k.store(place + 1, ends, expert * 4)
        k.store(number.to(i32), k.pointer("sources"), place.to(i64) * 4)
        k.store(place, k.pointer("places"), (row * k.number("top_k") + choice) * 4)


def _each_choice(k: Kernel) -> Iterator[tuple[Value, Value, Value, Value]]:
    """Loops over rows and their choices: row of the set and of the tensor, number among the row's choices, expert."""
    with k.loop(0, k.work) as row:
        number = row_number(k, row)
        with k.loop(0, k.number("top_k")) as choice:
            yield row, number, choice, k.load(i32, k.pointer("ids") + number * k.number("stride"), choice * 4).to(i64)


def _share(k: Kernel, counts: Value) -> None:
    """List the experts with rows, and replace the counts by the numbers of the first choices."""
    start, used = k.variable(k.constant(i32, 0)), k.variable(k.integer(0))
    with k.loop(0, k.number("experts")) as expert:
        count = k.load(i32, counts, expert * 4)
        k.store(start.value, counts, expert * 4)
        with k.when(count > 0):
            share = k.pointer("shares") + used.value * _SHARE_BYTES
            for index, number in enumerate((expert.to(i32), start.value, count)):
                k.store(number, share, _COUNT_BYTES + 4 * index)
            used.add(k.integer(1))
            start.add(count)
    k.store(used.value.to(i32), k.pointer("shares"))


@dataclass(frozen=True, slots=True)
class Task:
    """A part of the work on one expert.

    Attributes:
        expert: its number.
        first: number of its first choice.
        count: how many it has.
        part: number of the part.
    """

    expert: Value
    first: Value
    count: Value
    part: Value


def each_task(k: Kernel, parts: Value | int) -> Iterator[Task]:
    """Loops over the parts of all experts with rows that this chunk gets; slots ``shares`` and ``chunks``.

    They follow one another, so that the rows of an expert stay in a cache.
    """
    shares, parts, chunks = k.pointer("shares"), k.integer(parts), k.number("chunks")
    total = k.load(i32, shares).to(i64) * parts
    with k.loop(k.chunk * total // chunks, (k.chunk + 1) * total // chunks) as number:
        share = shares + number // parts * _SHARE_BYTES
        expert, first, count = (k.load(i32, share, _COUNT_BYTES + 4 * index).to(i64) for index in range(3))
        yield Task(expert, first, count, number % parts)
