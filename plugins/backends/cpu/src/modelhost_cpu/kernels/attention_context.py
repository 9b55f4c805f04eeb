"""What the rows of a task see: the spans of a partition, and where their keys and values are."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

from modelhost_cpu.language.types import i16, i32, i64, vector
from modelhost_cpu.language.value import Value
from modelhost_cpu.language.vectors import LANES

from .attention_matrix import MatrixProducts
from .attention_rows import Work
from .attention_shape import SPAN, SPANS, TILE
from .attention_tasks import PARTITION
from .attention_vectors import VectorProducts
from .cache_layout import STRIP
from .cache_strips import CachedHead, copy_values, make_keys, make_values

_INDICES = vector(i32, LANES)


@dataclass(frozen=True, slots=True)
class Context:
    """A partition of the entries of one head in one cache.

    Attributes:
        work: the task.
        products: how it multiplies.
        cached: the entries.
        window: entries that a row sees.
        first: number of the partition's first entry.
        selected: whether rows see flagged entries only.
    """

    work: Work
    products: MatrixProducts | VectorProducts
    cached: CachedHead
    window: Value
    first: Value
    selected: bool

    def _end(self, row: Value) -> Value:
        """The number of entries up to the last one that a row sees."""
        return (self.work.position(row) + 1) // self.cached.shape.stride

    def spans(self, first_row: Value, rows: Value) -> tuple[Value, Value]:
        """The spans of the partition that some of these rows see, from the first to the one after the last."""
        k = self.work.k
        zero, all_ = k.integer(0), k.integer(PARTITION)
        low = k.maximum(self._end(first_row) - self.window, zero) - self.first
        end = self._end(first_row + rows - 1) - self.first
        start = k.minimum(k.maximum(low, zero), all_) // SPAN
        return start, (k.minimum(k.maximum(end, zero), all_) + (SPAN - 1)) // SPAN

    def cut_off(self, first_row: Value, rows: Value, span: Value) -> Value:
        """Whether some of these rows do not see all of a span."""
        entry = self.first + span * SPAN
        low = self._end(first_row + rows - 1) - self.window
        return (entry < low) | (entry + SPAN > self._end(first_row))

    def wanted(self, span: Value) -> AbstractContextManager[None]:
        """The code that follows runs for spans only that have flagged entries."""
        if not self.selected:
            return nullcontext()
        work = self.work
        return work.k.when(work.k.load(i64, work.area("flagged"), span * 8) > 0)

    def flag(self, positions: Value, count: int) -> None:
        """Flag the entries of the partition that are among ``count`` positions."""
        work, k = self.work, self.work.k
        flags, flagged = work.area("flags"), work.area("flagged")
        with k.loop(0, PARTITION * 4, LANES * 4) as offset:
            k.store(k.zero(_INDICES), flags, offset)
        k.store(k.zero(vector(i64, SPANS)), flagged)
        with k.loop(0, count // LANES * LANES, LANES) as index:
            places = k.load(_INDICES, positions, index * 4) - self.first.to(i32).splat(LANES)
            inside = (places >= 0) & (places < PARTITION)
            with k.unless(inside.bits(i16).equals(0)), k.loop(index, index + LANES) as one:
                self._flag_one(positions, one)
        with k.loop(count // LANES * LANES, count) as one:
            self._flag_one(positions, one)

    def _flag_one(self, positions: Value, index: Value) -> None:
        work, k = self.work, self.work.k
        place = k.load(i32, positions, index * 4).to(i64) - self.first
        with k.when((place >= 0) & (place < PARTITION)):
            k.store(k.constant(i32, 1), work.area("flags"), place * 4)
            k.store(k.integer(1), work.area("flagged"), place // SPAN * 8)

    def locate(self, spans: tuple[Value, Value]) -> None:
        """Write down where the strips of spans are; make those that memory does not hold as products need them."""
        k, cache = self.work.k, self.cached.shape
        with k.loop(*spans) as span, self.wanted(span), k.loop(span * 2, span * 2 + 2) as strip:
            if cache.stripped:
                self._find(strip, (span + 1) * SPAN if self.work.shape.depth == SPAN else (strip + 1) * STRIP)
            else:
                self._make(strip)

    def _find(self, strip: Value, end: Value) -> None:
        """Strips that lie in memory. Values are copied if not all entries before ``end`` belong to the sequence."""
        k, work, cache = self.work.k, self.work, self.cached.shape
        keys, values = self.cached.strip(k, self.first // STRIP + strip)
        k.store(keys, work.area("key_strips"), strip * 8)
        k.store(values, work.area("value_strips"), strip * 8)
        self.products.make_tail(strip, keys)
        with k.when(self.first + end > self.cached.entries):
            copy = work.area("made_values") + strip * cache.value_strip
            copy_values(k, cache, values, copy, self.cached.entries - self.first - strip * STRIP)
            k.store(copy, work.area("value_strips"), strip * 8)

    def _make(self, strip: Value) -> None:
        k, work, cache = self.work.k, self.work, self.cached.shape
        keys = work.area("made_keys") + strip * (work.shape.steps * TILE)
        values = work.area("made_values") + strip * cache.value_strip
        rows = work.area("key_rows"), work.area("value_rows")
        self.cached.rows(k, self.first // STRIP + strip, *rows)
        make_keys(k, cache, rows[0], keys)
        make_values(k, cache, rows[1], values)
        k.store(keys, work.area("key_strips"), strip * 8)
        k.store(values, work.area("value_strips"), strip * 8)
