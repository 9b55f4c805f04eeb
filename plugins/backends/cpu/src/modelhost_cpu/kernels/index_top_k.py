"""Choosing the entries that sparse attention looks at (the lightning indexer of DeepSeek-V3.2, 2025).

Entries are scored a partition at a time. Those that can be among the best go to a list of candidates, in order of their
positions; when it is full, all but the best so far are dropped. Scores are compared as integers of the same order.
"""

from __future__ import annotations

from typing import Any

from modelhost.api.backend import Node
from modelhost.graph import ops
from modelhost_cpu.language.types import f32, i16, i32, i64, vector
from modelhost_cpu.language.value import Value
from modelhost_cpu.language.vectors import BYTES, FLOATS, LANES
from modelhost_cpu.native.kernel import Kernel
from modelhost_cpu.program.builder import ProgramBuilder
from modelhost_cpu.program.lowering import lowers

from .attention import ALL, products_of
from .attention_context import Context
from .attention_rows import Work
from .attention_shape import SCORE_ROW, AttentionShape
from .attention_tasks import PARTITION, token_sequences
from .cache_layout import LINE
from .cache_strips import CachedHead
from .write_cache import cache_operands, cache_shape

_INDICES = vector(i32, LANES)
_LOWEST = -(1 << 31)


@lowers(ops.index_top_k)
def lower_index_top_k(b: ProgramBuilder, node: Node) -> None:
    operands: Any = node.operands
    query, weights, cache, table, starts, contexts = operands
    q, head_weights, top_k = b.view(query), b.view(weights), node.attributes["top_k"]
    matrix = b.target.has("amx-bf16") and not b.options.exact
    shape = AttentionShape((cache_shape(b, cache),), query.shape[1], q.stride, 1.0, matrix=matrix)
    window = cache.spec.window
    b.call(
        index_top_k,
        q.rows,
        {
            "query": q,
            "weights": head_weights,
            "output": b.output(node.outputs[0]),
            "sequences": token_sequences(b, starts),
            "starts": b.view(starts),
            "contexts": b.view(contexts),
            **cache_operands(b, 0, cache, table),
        },
        grain=1,
        scratch=shape.scratch + _Candidates.scratch(top_k),
        detail=f"{shape.heads}x{shape.cache.key_dim} best {top_k}",
        shape=shape,
        top_k=top_k,
        window=ALL if window is None else window,
        weight_stride=head_weights.stride,
    )


def index_top_k(k: Kernel, shape: AttentionShape, top_k: int, window: int, weight_stride: int) -> None:
    """Kernel: the best entries for one token.

    Slots: ``query``, ``weights``, ``output``, ``sequences`` (the sequence of every token), ``starts``, ``contexts``,
    and those of the cache.
    """
    k.raw.attributes.add("optsize")
    token = k.chunk
    sequence = k.load(i32, k.pointer("sequences"), token * 4).to(i64)
    end = k.load(i32, k.pointer("starts") + sequence * 4, 4).to(i64)
    tokens = k.load(i32, k.pointer("contexts"), sequence * 4).to(i64)
    work = Work(k, shape, token, tokens - (end - token), k.integer(0), k.integer(shape.group))
    products = products_of(work)
    products.begin()
    work.open_head(k.integer(0), products.rows_at_once)
    products.pack_queries()
    candidates = _Candidates(k, k.scratch + shape.scratch, top_k)
    table = k.pointer("table0") + sequence * k.number("width0") * 4
    addresses = k.pointer("keys0"), k.pointer("values0")
    cached = CachedHead(shape.cache, *addresses, table, k.integer(0), tokens // shape.cache.stride)
    seen = (work.before + 1) // shape.cache.stride
    low = k.maximum(seen - window, k.integer(0))
    with k.loop(low // PARTITION, (seen + (PARTITION - 1)) // PARTITION) as partition:
        context = Context(work, products, cached, k.integer(window), partition * PARTITION, False)
        spans = context.spans(k.integer(0), work.rows)
        context.locate(spans)
        _score(context, spans, candidates.scores, k.pointer("weights") + token * weight_stride)
        candidates.add(context.first, spans, low, seen)
    candidates.write(k.pointer("output") + token * (4 * top_k))
    products.end()


def _score(context: Context, spans: tuple[Value, Value], scores: Value, weights: Value) -> None:
    """Scores of the partition's entries: weighted sums of what is positive, over all heads in order."""
    work, k = context.work, context.work.k
    with k.loop(spans[0] * 2, spans[1] * 2) as strip:
        k.store(k.zero(FLOATS), scores, strip * BYTES)
    with work.row_blocks() as (first, count):
        with k.loop(*spans) as span:
            context.products.score(context.cached.shape, first, count, span)
        with k.loop(spans[0] * 2, spans[1] * 2) as strip:
            total = k.variable(k.load(FLOATS, scores, strip * BYTES))
            with k.loop(0, count) as row:
                product = k.load(FLOATS, work.area("scores") + row * SCORE_ROW, strip * BYTES)
                weight = k.load(f32, weights, (first + row) * 4).splat(LANES)
                total.set(k.fma(weight, k.maximum(product, k.zero(FLOATS)), total.value))
            k.store(total.value, scores, strip * BYTES)


class _Candidates:
    """The list of candidates: ``keys``, which order scores, and ``places``, their entries, rising."""

    def __init__(self, k: Kernel, memory: Value, top_k: int) -> None:
        self._k, self._top_k = k, top_k
        self.scores = memory
        self._keys = memory + PARTITION * 4
        self._places = self._keys + self._nbytes(top_k)
        self._count = k.variable(k.integer(0))
        self._bound = k.variable(k.constant(i32, _LOWEST))
        with k.loop(0, self._nbytes(top_k), BYTES) as offset:
            k.store(k.constant(_INDICES, _LOWEST), self._keys, offset)

    @staticmethod
    def _nbytes(top_k: int) -> int:
        """Of the keys: twice the best and a partition, so that few are dropped at a time and seldom."""
        return -(-(2 * top_k + PARTITION) * 4 // LINE) * LINE

    @classmethod
    def scratch(cls, top_k: int) -> int:
        """Bytes of memory."""
        return PARTITION * 4 + 2 * cls._nbytes(top_k)

    def add(self, first: Value, spans: tuple[Value, Value], low: Value, end: Value) -> None:
        """Add the entries ``low .. end - 1`` of a partition that starts with entry ``first``."""
        k = self._k
        with k.when(self._count.value > self._top_k * 2):
            self._drop()
        lanes = k.vector(i32, list(range(LANES)))
        with k.loop(spans[0] * 2, spans[1] * 2) as strip:
            entry = first + strip * LANES
            entries = entry.to(i32).splat(LANES) + lanes
            bits = (k.load(FLOATS, self.scores, strip * BYTES) + 0.0).bits(_INDICES)
            keys = bits ^ (bits.shift_right_signed(31) & 0x7FFFFFFF)
            seen = (entries >= low.to(i32).splat(LANES)) & (entries < end.to(i32).splat(LANES))
            wanted = seen & (keys > self._bound.value.splat(LANES))
            keys = k.select(wanted, keys, k.constant(_INDICES, _LOWEST))
            with k.unless(wanted.bits(i16).equals(0)):
                for lane in range(LANES):
                    self._put(keys.lane(lane), entries.lane(lane), wanted.lane(lane).to(i64, unsigned=True))

    def _put(self, key: Value, place: Value, step: Value) -> None:
        """Write at the end of the list. With a step of 0 the key is the lowest, and the next one takes its place."""
        offset = self._count.value * 4
        self._k.store(key, self._keys, offset)
        self._k.store(place, self._places, offset)
        self._count.add(step)

    def _drop(self) -> None:
        """Keep the best; of equal ones the first. From now on only better ones than the worst of them are added."""
        k = self._k
        bound = self._kth_key()
        left = k.variable(self._top_k - self._at_least(bound.to(i64) + 1))
        kept, count = k.variable(k.integer(0)), self._count.value
        with k.loop(0, count) as index:
            key, place = k.load(i32, self._keys, index * 4), k.load(i32, self._places, index * 4)
            k.store(key, self._keys, kept.value * 4)
            k.store(place, self._places, kept.value * 4)
            tied = key.equals(bound) & (left.value > 0)
            left.set(left.value - tied.to(i64, unsigned=True))
            kept.add(((key > bound) | tied).to(i64, unsigned=True))
        with k.loop(kept.value, count) as index:
            k.store(k.constant(i32, _LOWEST), self._keys, index * 4)
        self._count.set(kept.value)
        self._bound.set(bound)

    def _kth_key(self) -> Value:
        """The greatest number that as many keys reach as are wanted, bit by bit from the top."""
        k = self._k
        bound = k.variable(k.integer(_LOWEST))
        with k.loop(0, 32) as step:
            candidate = bound.value + (k.integer(1) << (31 - step))
            enough = self._at_least(candidate) >= self._top_k
            bound.set(k.select(enough, candidate, bound.value))
        return bound.value.to(i32)

    def _at_least(self, bound: Value) -> Value:
        """How many keys are not below ``bound`` (``i64``)."""
        k = self._k
        total = k.variable(k.zero(_INDICES))
        with k.loop(0, self._count.value * 4, BYTES) as offset:
            keys = k.load(_INDICES, self._keys, offset).to(i64)
            total.add((keys >= bound.splat(LANES)).to(i32, unsigned=True))
        return k.sum(total.value).to(i64)

    def write(self, target: Value) -> None:
        """Write the entries of the best, then -1."""
        k = self._k
        with k.when(self._count.value > self._top_k):
            self._drop()
        with k.loop(0, self._top_k) as index:
            place = k.load(i32, self._places, index * 4)
            k.store(k.select(index < self._count.value, place, k.constant(i32, -1)), target, index * 4)
