"""What the kernels of sampling have in common: rows of logits in blocks, and the memory between kernels.

A row is cut into blocks, which are the chunks that threads share; the other kernels have one chunk a row. Everything in
a row has one fixed order, whatever the other rows and the threads are.

Slots, the same for all: ``rows`` (addresses, int64), ``columns`` (logits of a row), ``blocks`` (of a row), ``memory``,
``row_bytes`` (of memory for a row), ``parameters`` (:data:`PARAMETER_BYTES` a row), ``count``, ``keys`` (int32
``[rows, count]``), and ``results`` (int64 ``[rows]`` or ``[rows, count]``).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from modelhost_cpu.language.types import f32, f64, i32, i64, ptr, vector
from modelhost_cpu.language.value import Value
from modelhost_cpu.language.vectors import BYTES, FLOATS, LANES
from modelhost_cpu.native.kernel import Kernel

SLOTS = ("work", "rows", "columns", "blocks", "memory", "row_bytes", "parameters", "count", "keys", "results")
BLOCK = 4096
"""Logits of a block."""
VECTORS = 4
"""Vectors that are worked on at a time."""
SCRATCH = (VECTORS + 1) * BYTES
"""Bytes of a thread's own memory: the end of a row, filled up, and one more vector."""
BUCKETS = 256
INTS = vector(i32, LANES)
LOWEST, HIGHEST = -(1 << 31), (1 << 31) - 1
LARGEST = 3.4028234663852886e38

PARAMETER_BYTES = 24
SHARE, SCALE, LEAST, LAST = 0, 8, 12, 16
"""Of a row: a uniform number or top_p (f64), log2(e) / temperature (f32), the least logit (f32), the last id (i64)."""

_HEADER = 64
TOP, LOW, BUCKET_SCALE, BUCKET, WANTED, BOUND = 0, 4, 8, 12, 16, 24
"""Places in the header of a row's memory."""
_RECORD = 128
KEYS, GREATEST, SMALLEST, NANS, COLLECTED, WEIGHT, SCALED = 0, 64, 68, 72, 76, 80, 88
"""Places in the record of a block."""
_HISTOGRAM = 8 * (BUCKETS + LANES)
"""Bytes. What is left out goes to a bucket more for every lane, so that no lane waits for another."""
_LIST = BLOCK + LANES
"""Entries of a block's list: a step of 0 writes one beyond the last."""


def row_bytes(blocks: int, *, lists: bool) -> int:
    """Bytes of memory for a row, with the space for histograms and lists of tokens or without."""
    extra = (blocks + 1) * _HISTOGRAM + 3 * 4 * _LIST * blocks
    return _HEADER + blocks * _RECORD + (extra if lists else 0)


class RowMemory:
    """Memory and parameters of row number ``row``."""

    def __init__(self, k: Kernel, row: Value) -> None:
        self._k, self.row = k, row
        self.header = k.pointer("memory") + row * k.number("row_bytes")
        self._parameters = k.pointer("parameters") + row * PARAMETER_BYTES
        self.blocks = k.number("blocks")

    @property
    def scale(self) -> Value:
        """log2(e) / temperature."""
        return self._k.load(f32, self._parameters, SCALE)

    @property
    def share(self) -> Value:
        """The uniform number or top_p."""
        return self._k.load(f64, self._parameters, SHARE)

    @property
    def least(self) -> Value:
        """The least logit that counts."""
        return self._k.load(f32, self._parameters, LEAST)

    @property
    def last(self) -> Value:
        """The last id that counts with the least logit."""
        return self._k.load(i64, self._parameters, LAST)

    @property
    def records(self) -> Value:
        """The records of the blocks."""
        return self.header + _HEADER

    def record(self, block: Value) -> Value:
        """The record of a block."""
        return self.records + block * _RECORD

    def histogram(self, block: Value) -> Value:
        """The histogram of a block; that of the row follows the last."""
        return self.record(self.blocks) + block * _HISTOGRAM

    def list_of(self, number: int, block: Value) -> Value:
        """List 0 (keys), 1 (ids) or 2 (weights) of a block. Those of a row follow each other."""
        start = self.histogram(self.blocks + 1) + self.blocks * (number * 4 * _LIST)
        return start + block * (4 * _LIST)

    @contextmanager
    def each_record(self) -> Iterator[tuple[Value, Value]]:
        """A loop over the blocks: the number and the record of each."""
        with self._k.loop(0, self.blocks) as block:
            yield block, self.record(block)


class Block:
    """One block of a row of logits."""

    def __init__(self, k: Kernel, memory: RowMemory, block: Value) -> None:
        self._k = k
        start = block * BLOCK
        self._source = k.load(ptr, k.pointer("rows"), memory.row * 8) + start * 4
        self._first = start.to(i32)
        self._size = k.minimum(k.number("columns") - start, k.integer(BLOCK))
        rest = self._size % (VECTORS * LANES)
        self._whole = self._size - rest
        with k.when(rest > 0):
            for part in range(VECTORS):
                k.store(k.constant(FLOATS, float("-inf")), k.scratch, part * BYTES)
            with k.loop(0, rest) as place:
                k.store(k.load(f32, self._source, (self._whole + place) * 4), k.scratch, place * 4)

    def _at(self, place: Value) -> Value:
        """Where the logits from ``place`` on are, filled up with minus infinity."""
        rest = self._k.scratch + (place - self._whole) * 4
        return self._k.select(place < self._whole, self._source + place * 4, rest)

    def vector(self, number: Value) -> tuple[Value, Value]:
        """The logits and the ids of a vector of the block."""
        k = self._k
        place = number * LANES
        ids = (self._first + place.to(i32)).splat(LANES) + k.vector(i32, list(range(LANES)))
        return k.load(FLOATS, self._at(place), 0), ids

    @contextmanager
    def vectors(self) -> Iterator[tuple[Value, Value, Value]]:
        """A loop over the vectors: number, logits and ids."""
        with self._k.loop(0, (self._size + (LANES - 1)) // LANES) as number:
            yield number, *self.vector(number)

    @contextmanager
    def groups(self) -> Iterator[tuple[list[Value], list[Value]]]:
        """A loop over groups of vectors: the logits and the ids."""
        k = self._k
        with k.loop(0, self._size, VECTORS * LANES) as place:
            source = self._at(place)
            first = (self._first + place.to(i32)).splat(LANES)
            numbers = [k.vector(i32, list(range(part * LANES, (part + 1) * LANES))) for part in range(VECTORS)]
            logits = [k.load(FLOATS, source, part * BYTES) for part in range(VECTORS)]
            yield logits, [first + number for number in numbers]


def block_of_chunk(k: Kernel) -> tuple[RowMemory, Value, Block]:
    """What a kernel of blocks works on: its row's memory, and the block's number and logits."""
    blocks = k.number("blocks")
    memory, block = RowMemory(k, k.chunk // blocks), k.chunk % blocks
    return memory, block, Block(k, memory, block)
