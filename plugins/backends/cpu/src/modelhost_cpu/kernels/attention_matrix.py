"""Products of attention by matrix instructions (AMX), operands in bfloat16."""

from __future__ import annotations

from collections.abc import Sequence

from modelhost_cpu.language import tiles
from modelhost_cpu.language.convert import narrow
from modelhost_cpu.language.types import bf16, ptr
from modelhost_cpu.language.value import Value
from modelhost_cpu.language.vectors import FLOATS, LANES

from .attention_rows import Wanted, Work
from .attention_shape import SCORE_ROW, SPAN, TILE
from .attention_tasks import ROW_BLOCK
from .cache_layout import LINE, STRIP, CacheShape

_QUERIES, _KEYS, _WEIGHTS, _VALUES = 4, 5, 6, 7
"""Tiles of the operands."""
_SUMS = 4
"""Tiles 0 to 3 hold sums."""


class MatrixProducts:
    """Sixteen or 32 rows at a time, 32 entries at a time."""

    rows_at_once = 1

    def __init__(self, work: Work) -> None:
        self._work = work
        self._k = work.k
        self._shape = work.shape

    def begin(self) -> None:
        """Set the tiles up, for as many rows as the task has: fewer take less time."""
        k, depth, rows = self._k, self._shape.depth, [tiles.TILE_ROWS] * 8
        rows[_VALUES] = depth // 2
        place = self._work.area("configuration")
        constant = k.shared_bytes("tiles", tiles.configuration(rows, {_WEIGHTS: depth * 2}))
        k.store(k.load(FLOATS, constant), place)
        height = k.minimum(self._work.rows, k.integer(STRIP))
        for tile in (*range(_SUMS), _QUERIES, _WEIGHTS):
            tiles.set_rows(k, place, tile, height)
        tiles.configure(k, place)

    def end(self) -> None:
        """Give the tiles up."""
        tiles.release(self._k)

    def pack_queries(self) -> None:
        """Queries as left operands, ``[rows / 16, steps, 16 rows, 32 numbers]``, filled up with zeros."""
        k, size = self._k, self._shape.cache.key_dim
        with k.loop(0, self._work.rows) as row:
            source = k.load(ptr, self._work.area("queries"), row * 8)
            target = self._query_tiles(row) + row % STRIP * LINE
            whole, rest = divmod(size, SPAN)
            with k.loop(0, whole) as step:
                for half in range(2):
                    numbers = k.load(FLOATS, source + step * (SPAN * 4), half * LANES * 4)
                    k.store(narrow(k, numbers, bf16), target + step * TILE, half * LANES * 2)
            for half in range(2 if rest else 0):
                count = max(0, min(LANES, rest - half * LANES))
                part = source + (whole * SPAN + half * LANES) * 4
                numbers = k.load_masked(FLOATS, part, k.integer(count)) if count else k.zero(FLOATS)
                k.store(narrow(k, numbers, bf16), target + whole * TILE, half * LANES * 2)

    def _query_tiles(self, row: Value) -> Value:
        return self._work.area("query_tiles") + row // STRIP * (self._shape.steps * TILE)

    def make_tail(self, strip: Value, keys: Value) -> None:
        """The last lines of a strip's keys, filled up with zeros to a whole operand."""
        k, lines = self._k, self._shape.tail_lines
        source = keys + (self._shape.cache.key_strip - lines * LINE)
        target = self._work.area("key_tails") + strip * TILE
        for line in range(STRIP):
            cells = k.load(FLOATS, source, line * LINE) if line < lines else k.zero(FLOATS)
            k.store(cells, target, line * LINE)

    def score(self, cache: CacheShape, first: Value, count: Value, span: Value) -> None:
        """Products of a block of rows with the keys of a span."""
        two = count > STRIP
        for rows, runs in ((2, self._k.when), (1, self._k.unless)):
            with runs(two):
                self._score(cache, first, span, rows)

    def _score(self, cache: CacheShape, first: Value, span: Value, rows: int) -> None:
        k, work, shape = self._k, self._work, self._shape
        keys = [k.load(ptr, work.area("key_strips"), (span * 2 + column) * 8) for column in range(2)]
        queries = self._query_tiles(first)
        for tile in range(2 * rows):
            tiles.zero(k, tile)
        tail = cache.stripped and shape.tail_lines > 0
        with k.loop(0, shape.steps - tail) as step:
            self._multiply(queries + step * TILE, [column + step * TILE for column in keys], rows)
        if tail:
            last = work.area("key_tails") + span * (2 * TILE)
            self._multiply(queries + (shape.steps - 1) * TILE, [last, last + TILE], rows)
        for row in range(rows):
            for column in range(2):
                place = work.area("scores") + (span * SPAN + column * STRIP) * 4
                tiles.store(k, 2 * row + column, place + row * STRIP * SCORE_ROW, SCORE_ROW)

    def _multiply(self, queries: Value, keys: list[Value], rows: int) -> None:
        k = self._k
        for column, operand in enumerate(keys):
            tiles.load(k, _KEYS, operand)
            for row in range(rows):
                tiles.load(k, _QUERIES, queries + row * self._shape.steps * TILE)
                tiles.multiply_bf16(k, 2 * row + column, _QUERIES, _KEYS)

    def put_weights(self, row: Value, span: Value, weights: Sequence[Value]) -> None:
        """Weights as left operands, ``[spans, 32 rows, 32 entries]``."""
        halves = [narrow(self._k, part, bf16) for part in weights]
        self._k.store(halves[0].join(halves[1]), self._work.area("weights") + span * (ROW_BLOCK * LINE), row * LINE)

    def add_values(self, count: Value, spans: tuple[Value, Value], wanted: Wanted) -> None:
        """Weighted sums of values for a block of rows."""
        two = count > STRIP
        for rows, runs in ((2, self._k.when), (1, self._k.unless)):
            with runs(two):
                self._add_values(spans, wanted, rows)

    def _add_values(self, spans: tuple[Value, Value], wanted: Wanted, rows: int) -> None:
        k, at_once = self._k, _SUMS // rows
        whole, rest = divmod(self._shape.columns // STRIP, at_once)
        with k.loop(0, whole * at_once * LINE, at_once * LINE) as offset:
            self._add_columns(offset, spans, wanted, rows, at_once)
        if rest:
            self._add_columns(k.integer(whole * at_once * LINE), spans, wanted, rows, rest)

    def _add_columns(self, offset: Value, spans: tuple[Value, Value], wanted: Wanted, rows: int, columns: int) -> None:
        """Sixteen numbers of a value for every column, from ``offset`` in a line of values on."""
        k, work, stride = self._k, self._work, self._shape.columns * 4
        sums = [(row, column, row * columns + column) for row in range(rows) for column in range(columns)]
        for _, _, tile in sums:
            tiles.zero(k, tile)
        with k.loop(*spans) as span, wanted(span):
            weights = work.area("weights") + span * (ROW_BLOCK * LINE)
            for part in range(SPAN // self._shape.depth):
                values = k.load(ptr, work.area("value_strips"), span * 16 + part * 8) + offset
                self._multiply_values(weights + part * (2 * STRIP), values, rows, columns)
        for row, column, tile in sums:
            tiles.store(k, tile, work.area("part_values") + row * STRIP * stride + offset + column * LINE, stride)

    def _multiply_values(self, weights: Value, values: Value, rows: int, columns: int) -> None:
        k = self._k
        for row in range(rows):
            tiles.load(k, _WEIGHTS, weights + row * TILE)
            for column in range(columns):
                tiles.load(k, _VALUES, values + column * LINE, self._shape.cache.value_line)
                tiles.multiply_bf16(k, row * columns + column, _WEIGHTS, _VALUES)
