"""The work of an attention op in one step, cut into tasks for threads.

The queries of a sequence that read one key/value head are its rows: for every token, one for each head of the group. A
task is some consecutive rows over some consecutive partitions of the context. Cutting a context never changes a result,
since what partitions contribute is always added up in their order.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from modelhost.api import UnsupportedError
from modelhost_cpu.program.builder import ProgramBuilder
from modelhost_cpu.program.views import Slot

if TYPE_CHECKING:
    import numpy.typing as npt

    Int = npt.NDArray[np.int32]

PARTITION = 256
"""Entries that are attended to at once. The first entry of a partition is a multiple of it."""
MOST_ROWS = 128
"""Rows of a task."""
ROW_BLOCK = 32
FIELDS = 16
"""Integers of a task."""
(
    SEQUENCE,
    FIRST_ROW,
    ROWS,
    FIRST_HEAD,
    END_HEAD,
    FIRST_PARTITION,
    END_PARTITION,
    STORED_ROW,
    CONTEXT_START,
    CONTEXT_END,
    OWNER,
    FINISHED,
) = range(12)
"""Fields of a task.

``STORED_ROW`` is where its partitions' results are kept until all tasks of the same rows are done, in rows, or -1 when
the task covers the whole context, partitions ``CONTEXT_START .. CONTEXT_END``. ``FINISHED`` of task ``OWNER`` counts
the finished partitions of those rows; it is 0 before and after every op.
"""
_REST = (0,) * (FIELDS - FINISHED)
_TASKS_PER_THREAD = 8
_PARTS_PER_THREAD = 3
STORED_ROWS = 16
"""Rows are stored in multiples of this."""
_STORED_ROWS_PER_THREAD = 4096
"""Stored rows are no more than these; contexts that would need more are not cut."""
_NO_LIMIT = 1 << 30
_SMALL_ENTRIES = 128
"""Fewer entries than these, all heads together, are not worth another thread."""


class _Rows(NamedTuple):
    """Consecutive rows of a sequence and the partitions ``start .. end`` that they see."""

    sequence: int
    first: int
    height: int
    start: int
    end: int


@dataclass(slots=True)
class AttentionTasks:
    """Tasks of all attention ops of a graph that have the same shape and the same inputs.

    Attributes:
        starts: name of the input with the sequences' first tokens.
        contexts: name of the input with the sequences' lengths.
        kv_heads: number of key/value heads.
        group: query heads of each.
        window: entries that a token sees; ``None`` means all.
        stride: tokens that an entry stands for.
        alone: every token has tasks of its own.
        whole: contexts are never cut.
        threads: that share the work.
    """

    starts: str
    contexts: str
    kv_heads: int
    group: int
    window: int | None
    stride: int
    alone: bool
    whole: bool
    threads: int
    _inputs: Mapping[str, Int] | None = field(default=None, repr=False)
    _tasks: Int = field(default_factory=lambda: np.zeros((0, FIELDS), np.int32), repr=False)
    _stored_rows: int = field(default=0, repr=False)

    @property
    def name(self) -> str:
        """Says which tasks these are."""
        return repr(self)

    def tasks(self, inputs: Mapping[str, Int]) -> Int:
        """int32 ``[tasks, FIELDS]``."""
        self._update(inputs)
        return self._tasks

    def stored_rows(self, inputs: Mapping[str, Int]) -> Int:
        """An array as long as there are rows to store."""
        self._update(inputs)
        return np.empty(self._stored_rows, np.int32)

    @property
    def most_stored_rows(self) -> int:
        """More rows are never stored."""
        return _STORED_ROWS_PER_THREAD * self.threads

    def _update(self, inputs: Mapping[str, Int]) -> None:
        if self._inputs is not inputs:
            self._inputs = inputs
            self._make(inputs[self.starts].tolist(), inputs[self.contexts].tolist())

    def _make(self, starts: list[int], contexts: list[int]) -> None:
        limit = self._most_rows(starts[-1])
        blocks = [
            rows
            for sequence, (start, end) in enumerate(pairwise(starts))
            for rows in self._row_blocks(sequence, end - start, contexts[sequence], limit)
        ]
        heads = self.kv_heads if self._heads_together(blocks, contexts) else 1
        most = sum(rows.end - rows.start for rows in blocks) * self.kv_heads // (_PARTS_PER_THREAD * self.threads)
        if self.whole or self.threads == 1:
            most = _NO_LIMIT
        numbers, stored = array("i"), 0
        for rows in blocks:
            for head in range(0, self.kv_heads, heads):
                stored += self._append(numbers, rows, head, head + heads, max(1, most), stored)
        self._tasks, self._stored_rows = np.array(numbers, np.int32).reshape(-1, FIELDS), stored

    def _heads_together(self, blocks: list[_Rows], contexts: list[int]) -> bool:
        """Whether a task is for all heads: where there are enough tasks, and where there is little to do."""
        if len(blocks) >= _TASKS_PER_THREAD * self.threads:
            return True
        return len(blocks) == 1 and self.kv_heads * contexts[blocks[0].sequence] <= _SMALL_ENTRIES

    def _most_rows(self, tokens: int) -> int:
        """Few rows in a task where there are many threads, so that there are enough tasks."""
        share = tokens * self.group * self.kv_heads // (_TASKS_PER_THREAD * self.threads)
        return max(ROW_BLOCK, min(MOST_ROWS, share // ROW_BLOCK * ROW_BLOCK))

    def _row_blocks(self, sequence: int, tokens: int, context: int, limit: int) -> Iterator[_Rows]:
        """The rows of a sequence, the last tokens first, for they see most."""
        step = 1 if self.alone else max(1, limit // self.group)
        for first in range((tokens - 1) // step * step, -1, -step):
            end = min(first + step, tokens)
            start, stop = self._partitions(context - tokens + first, context - tokens + end - 1)
            for row in range(first * self.group, end * self.group, MOST_ROWS):
                yield _Rows(sequence, row, min(MOST_ROWS, end * self.group - row), start, stop)

    def _partitions(self, first: int, last: int) -> tuple[int, int]:
        """Those that hold the entries that tokens from position ``first`` to ``last`` see."""
        low = 0 if self.window is None else max(0, (first + 1) // self.stride - self.window)
        return low // PARTITION, -(-((last + 1) // self.stride) // PARTITION)

    def _append(self, numbers: array[int], rows: _Rows, head: int, end_head: int, most: int, stored: int) -> int:
        """Add tasks of at most ``most`` partitions; returns how many rows have to be stored for that.

        Args:
            stored: rows that have to be stored for the tasks so far.
        """
        sequence, first, height, start, end = rows
        needed = -(-height // STORED_ROWS) * STORED_ROWS * (end - start)
        cut = end - start > most and stored + needed <= self.most_stored_rows
        owner, place = len(numbers) // FIELDS, stored if cut else -1
        for part in range(start, max(end, start + 1), most if cut else _NO_LIMIT):
            stop = min(part + most, end) if cut else end
            numbers.extend((sequence, first, height, head, end_head, part, stop, place, start, end, owner, *_REST))
        return needed if cut else 0


def token_sequences(b: ProgramBuilder, starts: Any) -> Slot:
    """int32 ``[T]``: the sequence of every token, from the tensor with the sequences' first tokens."""
    name = require_input(b, starts)

    def make(inputs: Mapping[str, Int]) -> Int:
        counts = np.diff(inputs[name])
        return np.repeat(np.arange(len(counts), dtype=np.int32), counts)

    return b.derive(f"sequences.{name}", make)[0]


def require_input(b: ProgramBuilder, tensor: Any) -> str:
    """The name of a tensor that says where sequences are.

    Raises:
        UnsupportedError: it is not an input of the step.
    """
    if tensor.name not in b.graph.inputs:
        raise UnsupportedError(f"backend 'cpu' wants an input of the step to say where sequences are, not {tensor}")
    return str(tensor.name)
