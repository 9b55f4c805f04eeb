"""Products of attention by vector instructions, in float32, on keys and values in float32 or bfloat16."""

from __future__ import annotations

from collections.abc import Sequence

from modelhost_cpu.language.function import Variable
from modelhost_cpu.language.types import f32, i32, ptr, vector
from modelhost_cpu.language.value import Value
from modelhost_cpu.language.vectors import BYTES, FLOATS, LANES

from .attention_rows import Wanted, Work
from .attention_shape import SCORE_ROW, rows_at_once
from .cache_layout import LINE, STRIP, CacheShape


class VectorProducts:
    """A few rows at a time, sixteen entries or numbers at a time. Each sum is over its terms in order."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self._k = work.k
        self._shape = work.shape
        self.rows_at_once = rows_at_once(work.k.target)

    def begin(self) -> None:
        """There is nothing to set up."""

    def end(self) -> None:
        """There is nothing to give up."""

    def pack_queries(self) -> None:
        """Queries are used as they are."""

    def make_tail(self, strip: Value, keys: Value) -> None:
        """Keys are used as they are."""

    def score(self, cache: CacheShape, first: Value, count: Value, span: Value) -> None:
        """Products of a block of rows with the keys of a span."""
        k, work = self._k, self._work
        with k.loop(0, count, self.rows_at_once) as row, k.loop(span * 2, span * 2 + 2) as strip:
            keys = k.load(ptr, work.area("key_strips"), strip * 8)
            queries = [
                k.load(ptr, work.area("queries") + (first + row) * 8, index * 8) for index in range(self.rows_at_once)
            ]
            sums = [k.variable(k.zero(FLOATS)) for _ in queries]
            self._add_keys(sums, queries, keys)
            for index, total in enumerate(sums):
                k.store(total.value, work.area("scores") + (row + index) * SCORE_ROW, strip * BYTES)

    def _add_keys(self, sums: Sequence[Variable], queries: Sequence[Value], keys: Value) -> None:
        k, cache = self._k, self._shape.cache
        per_cell = 2 if cache.paired else 1
        with k.loop(0, cache.key_dim // per_cell) as cell:
            for index, numbers in enumerate(self._numbers(keys + cell * LINE)):
                self._add(sums, [query + (cell * per_cell + index) * 4 for query in queries], numbers)
        if cache.key_dim % per_cell:
            last = (cache.key_cells - 1) * LINE
            self._add(sums, [query + (cache.key_dim - 1) * 4 for query in queries], self._numbers(keys + last)[0])

    def _numbers(self, line: Value) -> list[Value]:
        """The numbers in sixteen cells: of one vector, or those of the first and those of the second in every pair."""
        k = self._k
        if not self._shape.cache.paired:
            return [k.load(FLOATS, line)]
        cells = k.load(vector(i32, LANES), line)
        return [(cells << 16).bits(FLOATS), (cells & -0x10000).bits(FLOATS)]

    def _add(self, sums: Sequence[Variable], factors: Sequence[Value], numbers: Value) -> None:
        """Add to every sum a factor, which is at an address, times ``numbers``."""
        k = self._k
        for total, factor in zip(sums, factors, strict=True):
            total.set(k.fma(k.load(f32, factor).splat(LANES), numbers, total.value))

    def put_weights(self, row: Value, span: Value, weights: Sequence[Value]) -> None:
        """Weights take the place of scores."""
        place = self._work.area("scores") + row * SCORE_ROW + span * (2 * BYTES)
        for half, part in enumerate(weights):
            self._k.store(part, place, half * BYTES)

    def add_values(self, count: Value, spans: tuple[Value, Value], wanted: Wanted) -> None:
        """Weighted sums of values for a block of rows."""
        k, work, columns = self._k, self._work, self._shape.columns * 4
        with k.loop(0, count, self.rows_at_once) as row, k.loop(0, columns, BYTES) as offset:
            sums = [k.variable(k.zero(FLOATS)) for _ in range(self.rows_at_once)]
            scores = work.area("scores") + row * SCORE_ROW
            with k.loop(*spans) as span, wanted(span), k.loop(span * 2, span * 2 + 2) as strip:
                values = k.load(ptr, work.area("value_strips"), strip * 8) + offset
                self._add_strip(sums, scores + strip * BYTES, values)
            for index, total in enumerate(sums):
                k.store(total.value, work.area("part_values") + (row + index) * columns, offset)

    def _add_strip(self, sums: Sequence[Variable], weights: Value, values: Value) -> None:
        k, cache = self._k, self._shape.cache
        per_line = STRIP // cache.value_lines
        with k.loop(0, cache.value_lines) as line:
            for index, numbers in enumerate(self._numbers(values + line * cache.value_line)):
                place = weights + (line * per_line + index) * 4
                self._add(sums, [place + row * SCORE_ROW for row in range(len(sums))], numbers)
