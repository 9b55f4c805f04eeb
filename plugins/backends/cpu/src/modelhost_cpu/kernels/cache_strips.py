"""Finding strips of cached entries for the kernels of attention, and making them where memory does not hold them.

A strip is sixteen consecutive entries of a sequence, the first a multiple of sixteen. Its keys are lines of sixteen
cells, its values lines of one entry or of a pair of them: see :mod:`modelhost_cpu.kernels.cache_layout`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from modelhost_cpu.language.function import Function
from modelhost_cpu.language.types import f32, i16, i32, i64, lanes_of, ptr, vector
from modelhost_cpu.language.value import Value

from .cache_layout import CELL, LINE, STRIP, CacheShape

_CELLS = vector(i32, STRIP)
_HALVES = vector(i16, 2 * STRIP)


@dataclass(frozen=True, slots=True)
class CachedHead:
    """The entries of one head of one sequence.

    Attributes:
        shape: of the cache.
        keys: address of the cache's keys.
        values: address of its values; of its keys where it is latent.
        table: address of the sequence's blocks, int32.
        head: number of the key/value head.
        entries: of the sequence. What lies in memory after them may belong to another sequence.
    """

    shape: CacheShape
    keys: Value
    values: Value
    table: Value
    head: Value
    entries: Value

    def block(self, k: Function, number: Value) -> Value:
        """Number of this head's part of a block, among the parts of all blocks and heads."""
        return k.load(i32, self.table, number * 4).to(i64) * self.shape.kv_heads + self.head

    def _last(self, k: Function, entry: Value) -> Value:
        return k.minimum(entry, self.entries - 1)

    def strip(self, k: Function, strip: Value) -> tuple[Value, Value]:
        """Addresses of the keys and the values of a strip in memory; of the last one instead of one after it."""
        shape, first = self.shape, self._last(k, strip * STRIP)
        block, inner = self.block(k, first // shape.entries), first % shape.entries // STRIP
        keys = self.keys + (block * shape.key_block + inner * shape.key_strip)
        return keys, self.values + (block * shape.value_block + inner * shape.value_strip)

    def rows(self, k: Function, strip: Value, key_rows: Value, value_rows: Value) -> None:
        """Write the addresses of the keys and values of a strip's entries to two arrays of sixteen.

        Where the sequence has no such entry, they are those of zeros.
        """
        shape = self.shape
        zeros = k.shared_bytes("zeros", bytes(max(shape.key_cells, shape.cells(shape.value_dim)) * CELL + LINE))
        width = shape.cells(shape.value_dim) * CELL
        with k.loop(0, STRIP) as index:
            wanted = strip * STRIP + index
            entry = self._last(k, wanted)
            block, inner = self.block(k, entry // shape.entries), entry % shape.entries
            key = self.keys + (block * shape.key_block + inner * (shape.key_cells * CELL))
            value = key if shape.latent else self.values + (block * shape.value_block + inner * width)
            for row, place in ((key, key_rows), (value, value_rows)):
                k.store(k.select(wanted < self.entries, row, zeros), place, index * 8)


def _row_addresses(k: Function, rows: Value) -> list[Value]:
    return [k.load(ptr, rows, index * 8, align=8) for index in range(STRIP)]


def make_keys(k: Function, shape: CacheShape, rows: Value, target: Value) -> None:
    """The keys of a strip from the addresses of sixteen rows: a transposition, filled up to whole sixteens of lines."""
    sources = _row_addresses(k, rows)
    whole, rest = divmod(shape.key_cells, STRIP)
    with k.loop(0, whole * LINE, LINE) as offset:
        cells = [k.load(_CELLS, source, offset) for source in sources]
        _store_lines(k, transposed(cells), target + offset * STRIP)
    if rest:
        offset = k.integer(whole * LINE)
        cells = [_first_cells(k, source + offset, rest) for source in sources]
        _store_lines(k, transposed(cells), target + offset * STRIP)


def _first_cells(k: Function, source: Value, count: int) -> Value:
    return k.load_masked(vector(f32, STRIP), source, k.integer(count)).bits(_CELLS)


def _store_lines(k: Function, lines: Sequence[Value], target: Value) -> None:
    for index, line in enumerate(lines):
        k.store(line, target, index * LINE)


def _exchanged(a: Value, b: Value, step: int) -> tuple[Value, Value]:
    """The halves of each group of ``2 * step`` lanes: the lower ones of both vectors, and the upper ones."""
    count = lanes_of(a.type)
    low = [lane if not lane & step else count + lane - step for lane in range(count)]
    high = [lane + step if not lane & step else count + lane for lane in range(count)]
    return a.shuffle(low, b), a.shuffle(high, b)


def transposed(rows: Sequence[Value]) -> list[Value]:
    """Lane j of vector i becomes lane i of vector j; as many vectors as lanes, a power of two."""
    result, step = list(rows), 1
    while step < len(result):
        for low in (index for index in range(len(result)) if not index & step):
            result[low], result[low | step] = _exchanged(result[low], result[low | step], step)
        step *= 2
    return result


def combined(rows: Sequence[Value], combine: Callable[[Value, Value], Value]) -> Value:
    """Lane i is all lanes of vector i combined, in an order that is the same for every i."""
    result, step = list(rows), 1
    while len(result) > 1:
        result = [combine(*_exchanged(a, b, step)) for a, b in zip(result[::2], result[1::2], strict=True)]
        step *= 2
    return result[0]


def make_values(k: Function, shape: CacheShape, rows: Value, target: Value) -> None:
    """The values of a strip from the addresses of sixteen rows. Up to two lines after them are overwritten."""
    per_line = STRIP // shape.value_lines
    with k.loop(0, shape.value_lines) as line:
        sources = [k.load(ptr, rows, (line * per_line + index) * 8, align=8) for index in range(per_line)]
        _make_line(k, shape, sources, target + line * shape.value_line)


def _make_line(k: Function, shape: CacheShape, sources: Sequence[Value], target: Value) -> None:
    """In bfloat16 the numbers of two entries alternate. A part of a row is read without what follows it."""
    cells = shape.cells(shape.value_dim)
    whole, rest = divmod(cells, STRIP)
    with k.loop(0, whole * LINE, LINE) as offset:
        _store_interleaved(k, [k.load(_CELLS, source, offset) for source in sources], target + offset * len(sources))
    if rest:
        offset = k.integer(whole * LINE)
        parts = [_first_cells(k, source + offset, rest) for source in sources]
        _store_interleaved(k, parts, target + offset * len(sources))


def _store_interleaved(k: Function, parts: Sequence[Value], target: Value) -> None:
    if len(parts) == 1:
        k.store(parts[0], target)
        return
    a, b = (part.bits(_HALVES) for part in parts)
    lanes = [lane // 2 + 2 * STRIP * (lane % 2) for lane in range(4 * STRIP)]
    k.store(a.shuffle(lanes[: 2 * STRIP], b), target)
    k.store(a.shuffle(lanes[2 * STRIP :], b), target, LINE)


def copy_values(k: Function, shape: CacheShape, source: Value, target: Value, count: Value) -> None:
    """Copy the values of a strip, with zeros instead of entries from number ``count`` (``i64``) on.

    Up to a line before and after the copy is overwritten or read.
    """
    per_line = STRIP // shape.value_lines
    with k.loop(0, shape.value_lines) as line:
        kept = count - line * per_line
        half = k.constant(i32, 0xFFFF if per_line == 2 else -1)
        mask = k.select(kept >= per_line, k.constant(i32, -1), k.select(kept > 0, half, k.constant(i32, 0)))
        mask = mask.splat(STRIP)
        place = line * shape.value_line
        with k.loop(place, place + shape.value_line, LINE) as offset:
            k.store(k.load(_CELLS, source, offset) & mask, target, offset)
