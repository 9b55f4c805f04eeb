"""The parts of attention that do not depend on how products are computed: rows, weights, and sums over partitions.

The softmax is taken partition by partition (Milakov and Gimelshein, Online normalizer calculation for softmax, 2018;
FlashAttention-2, Dao 2023). A partition gives, for every row, a maximum, a sum of weights relative to that maximum, and
a sum of weighted values. They are merged in the order of the partitions. Entries that a row does not see have weight
zero, and a partition of such entries changes nothing: so the result of a row depends on nothing but its query, its
position and what it sees. Scores are in units of the logarithm to base two.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from math import e, log2
from operator import add

from modelhost_cpu.language.math import exp2_of_negative, tanh
from modelhost_cpu.language.types import f32, i32, i64, ptr, vector
from modelhost_cpu.language.value import Value
from modelhost_cpu.language.vectors import BYTES, FLOATS, LANES, each_vector, store_part
from modelhost_cpu.native.kernel import Kernel

from .attention_shape import SCORE_ROW, SPAN, AttentionShape
from .attention_tasks import MOST_ROWS, ROW_BLOCK, STORED_ROWS
from .cache_strips import combined

Put = Callable[[Value, Value, Sequence[Value]], None]
"""Stores the weights of a row (of its block) for a span (of the partition), two vectors."""
Wanted = Callable[[Value], AbstractContextManager[None]]
"""Makes the code that follows run for those spans of a partition only that any row may see."""
LOG2_E = log2(e)
LOWEST = -1e30
"""Maximum of no scores."""
HIDDEN = -3e38
"""Score of an entry that is not seen."""


@dataclass(frozen=True, slots=True)
class Work:
    """One task of a kernel.

    Attributes:
        k: the kernel.
        shape: its constants.
        start: row of the sequence's first token among those of the step.
        before: position of that token.
        first: the task's first row; row r belongs to token ``r // group``.
        rows: of the task.
    """

    k: Kernel
    shape: AttentionShape
    start: Value
    before: Value
    first: Value
    rows: Value

    def area(self, name: str) -> Value:
        """A part of scratch memory."""
        return self.k.scratch + self.shape.offset(name)

    def position(self, row: Value) -> Value:
        """Of the token that row ``row`` of the task belongs to."""
        return self.before + (self.first + row) // self.shape.group

    def open_head(self, head: Value, rows_at_once: int) -> None:
        """Write down where the rows of a key/value head read and write, their positions and sinks.

        Queries of the first row stand in for those after the last, up to a multiple of ``rows_at_once``.
        """
        k, shape = self.k, self.shape
        query, output = k.pointer("query"), k.pointer("output")
        size, width = shape.cache.key_dim * 4, shape.cache.value_dim * 4
        with k.loop(0, (self.rows + (rows_at_once - 1)) // rows_at_once * rows_at_once) as place:
            row = self.first + k.select(place < self.rows, place, k.integer(0))
            token, inner = row // shape.group, head * shape.group + row % shape.group
            source = query + (self.start + token) * shape.query_stride + inner * size
            target = output + (self.start + token) * (shape.heads * width) + inner * width
            k.store(source, self.area("queries"), place * 8)
            k.store(target, self.area("outputs"), place * 8)
            k.store((self.before + token).to(i32), self.area("positions"), place * 4)
            if k.has("sinks"):
                k.store(k.load(f32, k.pointer("sinks"), inner * 4) * LOG2_E, self.area("sinks"), place * 4)

    def clear(self) -> None:
        """Start with nothing seen."""
        k = self.k
        with k.loop(0, MOST_ROWS * 4, BYTES) as offset:
            k.store(k.constant(FLOATS, LOWEST), self.area("maxima"), offset)
            k.store(k.zero(FLOATS), self.area("sums"), offset)
        with k.loop(0, self.rows * (self.shape.columns * 4), BYTES) as offset:
            k.store(k.zero(FLOATS), self.area("values"), offset)

    @contextmanager
    def row_blocks(self) -> Iterator[tuple[Value, Value]]:
        """A loop over blocks of rows: the first row of each and how many rows it has."""
        with self.k.loop(0, self.rows, ROW_BLOCK) as first:
            yield first, self.k.minimum(self.rows - first, self.k.integer(ROW_BLOCK))

    def cap_scores(self, count: Value, spans: tuple[Value, Value]) -> None:
        """Scale and bound scores, so that :meth:`weigh` needs no factor."""
        k, shape = self.k, self.shape
        with k.loop(0, count) as row, k.loop(spans[0] * (SPAN * 4), spans[1] * (SPAN * 4), BYTES) as offset:
            place = self.area("scores") + row * SCORE_ROW + offset
            score = k.load(FLOATS, place) * shape.scale
            if shape.soft_cap is not None:
                score = tanh(k, score / shape.soft_cap) * shape.soft_cap
            k.store(score * LOG2_E, place)

    @property
    def prescaled(self) -> bool:
        """Whether scores need :meth:`cap_scores`; a factor that is not positive would not keep their order."""
        return self.shape.soft_cap is not None or self.shape.scale <= 0

    def hide(
        self, first: Value, count: Value, span: Value, entry: Value, stride: int, window: Value, flagged: bool
    ) -> None:
        """Mark the scores of one span that a row does not see.

        Args:
            first: first row of a block.
            count: rows of the block.
            span: in the partition.
            entry: the first of the span.
            stride: tokens that an entry stands for.
            window: entries that a row sees.
            flagged: whether it sees flagged ones only.
        """
        k = self.k
        lanes = k.vector(i32, list(range(LANES)))
        with k.loop(0, count) as row, k.loop(0, SPAN, LANES) as inner:
            end = (k.load(i32, self.area("positions"), (first + row) * 4).to(i64) + 1) // stride
            entries = (entry + inner).to(i32).splat(LANES) + lanes
            seen = (entries < end.to(i32).splat(LANES)) & (entries >= (end - window).to(i32).splat(LANES))
            if flagged:
                flags = k.load(vector(i32, LANES), self.area("flags"), (span * SPAN + inner) * 4)
                seen = seen & (flags > 0)
            place = self.area("scores") + row * SCORE_ROW + (span * SPAN + inner) * 4
            k.store(k.select(seen, k.load(FLOATS, place), k.constant(FLOATS, HIDDEN)), place)

    def weigh(self, count: Value, spans: tuple[Value, Value], put: Put) -> None:
        """Maximum, weights and their sum for every row of a block."""
        k = self.k
        factor = 1.0 if self.prescaled else self.shape.scale * LOG2_E
        lanes, scores = self.area("lanes"), self.area("scores")
        with k.loop(0, count) as row:
            highest = [k.variable(k.constant(FLOATS, HIDDEN)) for _ in range(2)]
            with k.loop(spans[0] * (SPAN * 4), spans[1] * (SPAN * 4), SPAN * 4) as offset:
                for half, variable in enumerate(highest):
                    score = k.load(FLOATS, scores + row * SCORE_ROW, offset + half * BYTES)
                    variable.set(k.maximum(score, variable.value))
            k.store(k.maximum(highest[0].value, highest[1].value), lanes, row * BYTES)
        lowest = k.constant(FLOATS, LOWEST)
        self._reduce(count, k.maximum, "part_maxima", lambda highest: k.maximum(highest * factor, lowest))
        with k.loop(0, count) as row:
            total = k.variable(k.zero(FLOATS))
            below = -k.load(f32, self.area("part_maxima"), row * 4)
            with k.loop(*spans) as span:
                weights = []
                for half in range(2):
                    score = k.load(FLOATS, scores + row * SCORE_ROW, span * (SPAN * 4) + half * BYTES)
                    score = k.fma(score, k.constant(FLOATS, factor), below.splat(LANES))
                    weights.append(exp2_of_negative(k, score, coarse=self.shape.matrix))
                total.add(weights[0] + weights[1])
                put(row, span, weights)
            k.store(total.value, lanes, row * BYTES)
        self._reduce(count, add, "part_sums", lambda total: total)

    def _reduce(
        self, count: Value, combine: Callable[[Value, Value], Value], area: str, final: Callable[[Value], Value]
    ) -> None:
        """Combine the lanes that are written down for every row to one number each."""
        k = self.k
        with k.loop(0, count, LANES) as first:
            rows = [k.load(FLOATS, self.area("lanes") + first * BYTES, index * BYTES) for index in range(LANES)]
            k.store(final(combined(rows, combine)), self.area(area), first * 4)

    def merge(self, first: Value, count: Value, part: tuple[Value, Value, Value]) -> None:
        """Add a partition's maxima, sums and values of a block of rows to those of the partitions before it."""
        k, columns = self.k, self.shape.columns * 4
        maxima, sums = self.area("maxima") + first * 4, self.area("sums") + first * 4
        with k.loop(0, count * 4, BYTES) as offset:
            old, new = k.load(FLOATS, maxima, offset), k.load(FLOATS, part[0], offset)
            highest = k.maximum(old, new)
            keep, take = (exp2_of_negative(k, value - highest) for value in (old, new))
            k.store(highest, maxima, offset)
            k.store(k.fma(k.load(FLOATS, part[1], offset), take, k.load(FLOATS, sums, offset) * keep), sums, offset)
            k.store(keep, self.area("factors"), offset)
            k.store(take, self.area("part_factors"), offset)
        with k.loop(0, count) as row:
            keep, take = (k.load(f32, self.area(name), row * 4).splat(LANES) for name in ("factors", "part_factors"))
            target, source = self.area("values") + (first + row) * columns, part[2] + row * columns
            with k.loop(0, columns, BYTES) as offset:
                kept = k.load(FLOATS, target, offset) * keep
                k.store(k.fma(k.load(FLOATS, source, offset), take, kept), target, offset)

    @property
    def part(self) -> tuple[Value, Value, Value]:
        """Maxima, sums and values of the partition at hand, of one block of rows."""
        return self.area("part_maxima"), self.area("part_sums"), self.area("part_values")

    def stored(self, place: Value, first: Value) -> tuple[Value, Value, Value]:
        """The same of the partition that is stored at ``place``, from row ``first`` on."""
        rows = (self.rows + (STORED_ROWS - 1)) // STORED_ROWS * STORED_ROWS
        return (
            place + first * 4,
            place + rows * 4 + first * 4,
            place + rows * 8 + first * (self.shape.columns * 4),
        )

    def store_part(self, place: Value, first: Value, count: Value) -> None:
        """Store what a partition gives for a block of rows."""
        k = self.k
        sizes = (count * 4, count * 4, count * (self.shape.columns * 4))
        for source, target, size in zip(self.part, self.stored(place, first), sizes, strict=True):
            with k.loop(0, size, BYTES) as offset:
                k.store(k.load(FLOATS, source, offset), target, offset)

    def finish(self) -> None:
        """Divide by the sums, sinks included, and write the results."""
        k, columns = self.k, self.shape.columns * 4
        with k.loop(0, self.rows, LANES) as first:
            sums = k.load(FLOATS, self.area("sums"), first * 4)
            factor = k.constant(FLOATS, 1.0)
            if k.has("sinks"):
                sink, maxima = (k.load(FLOATS, self.area(name), first * 4) for name in ("sinks", "maxima"))
                highest = k.maximum(sink, maxima)
                factor = exp2_of_negative(k, maxima - highest)
                sums = k.fma(sums, factor, exp2_of_negative(k, sink - highest))
            k.store(factor / sums, self.area("factors"))
            with k.loop(0, k.minimum(self.rows - first, k.integer(LANES))) as row:
                scale = k.load(f32, self.area("factors"), row * 4).splat(LANES)
                source = self.area("values") + (first + row) * columns
                target = k.load(ptr, self.area("outputs"), (first + row) * 8)
                for offset, part in each_vector(k, self.shape.cache.value_dim):
                    store_part(k, k.load(FLOATS, source, offset) * scale, target, offset, part)
