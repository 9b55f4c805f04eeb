"""The nucleus of rows: the shortest list of the most likely tokens that has a share of the weights.

The weights are counted by buckets of logits. In the bucket where the share is reached the tokens are listed, and the
last one is found bit by bit. Tokens that together weigh too little to matter are left out from the start.
"""

from __future__ import annotations

from functools import partial

from modelhost_cpu.language.math import log
from modelhost_cpu.language.types import f32, f64, i32, i64, vector
from modelhost_cpu.language.value import Value
from modelhost_cpu.language.vectors import BYTES, FLOATS, LANES
from modelhost_cpu.native.kernel import Kernel

from .logit_draw import RowWeights
from .logit_memory import (
    BUCKET,
    BUCKET_SCALE,
    BUCKETS,
    GREATEST,
    HIGHEST,
    INTS,
    LOW,
    SMALLEST,
    TOP,
    WANTED,
    RowMemory,
    block_of_chunk,
)
from .logit_search import List, RunningSum, any_of, floats_of, highest_key, joined, keys_of, weights_of

_WIDE = vector(f64, LANES)
_LOG2_E = 1.4426950408889634
_SMALLEST_LOG2 = -126.0


def bucket_range(k: Kernel) -> None:
    """Kernel of rows: the weight that is wanted, and the range of logits that the buckets divide.

    Tokens below it together weigh less than half of what may be left out. A damaged row has an empty range.
    """
    memory = RowMemory(k, k.chunk)
    row = RowWeights(k, memory)
    header, scale = memory.header, memory.scale
    k.store(row.top, header, TOP)
    k.store(row.total * memory.share, header, WANTED)
    smallest = k.variable(row.top)
    with memory.each_record() as (_, record):
        smallest.set(k.minimum(k.load(f32, record, SMALLEST), smallest.value))
    spare = (row.total * (1.0 - memory.share) * 0.5).to(f32) / k.floats(k.number("columns"))
    depth = k.maximum(log(k, spare) * _LOG2_E, k.constant(f32, _SMALLEST_LOG2)) / scale
    low = k.maximum(row.top + k.minimum(depth, k.constant(f32, 0.0)), k.maximum(memory.least, smallest.value))
    k.store(k.select(row.valid, low, k.constant(f32, float("nan"))), header, LOW)
    k.store(float(BUCKETS) / (row.top - low), header, BUCKET_SCALE)
    k.store(k.integer(-1), k.pointer("results"), memory.row * 8)


class _Buckets:
    """The numbers of the buckets of logits, falling with the logit."""

    def __init__(self, k: Kernel, memory: RowMemory) -> None:
        self._k = k
        self.top, self.low, self._scale = (
            k.load(f32, memory.header, place).splat(LANES) for place in (TOP, LOW, BUCKET_SCALE)
        )

    def numbers(self, x: Value) -> Value:
        """Below :data:`BUCKETS`; undefined for logits that are out of range."""
        place = (self.top - x) * self._scale
        return self._k.minimum(place, self._k.constant(FLOATS, BUCKETS - 1.0)).to(i32)


def fill_buckets(k: Kernel) -> None:
    """Kernel of blocks: the weights by bucket, relative to the row's greatest logit."""
    memory, number, block = block_of_chunk(k)
    buckets, scale, histogram = _Buckets(k, memory), memory.scale.splat(LANES), memory.histogram(number)
    with k.loop(0, BUCKETS // LANES) as part:
        k.store(k.zero(_WIDE), histogram, part * (8 * LANES))
    low, outside = k.load(f32, memory.header, LOW), k.vector(i32, list(range(BUCKETS, BUCKETS + LANES)))
    with k.when(k.load(f32, memory.record(number), GREATEST) >= low), block.vectors() as (_, x, _ids):
        wanted = x >= buckets.low
        with k.when(any_of(k, wanted)):
            weights = k.select(wanted, weights_of(k, x, buckets.top, scale), k.zero(FLOATS)).to(f64)
            places = k.select(wanted, buckets.numbers(k.select(wanted, x, buckets.top)), outside)
            for lane in range(LANES):
                place = histogram + places.lane(lane).to(i64) * 8
                k.store(k.load(f64, place) + weights.lane(lane), place)


def choose_bucket(k: Kernel) -> None:
    """Kernel of rows: the bucket where the wanted weight is reached, and what is still wanted of it."""
    memory = RowMemory(k, k.chunk)
    whole = memory.histogram(memory.blocks)
    with k.loop(0, BUCKETS * 8, 8 * LANES) as offset:
        total = k.variable(k.zero(_WIDE))
        with k.loop(0, memory.blocks) as block:
            total.add(k.load(_WIDE, memory.histogram(block), offset))
        k.store(total.value, whole, offset)
    wanted = k.load(f64, memory.header, WANTED)
    sums = RunningSum(k, wanted, reached=True)
    with k.loop(0, BUCKETS) as bucket:
        sums.add(bucket, k.load(f64, whole, bucket * 8))
    chosen, before = sums.result()
    k.store(chosen.to(i32), memory.header, BUCKET)
    k.store(wanted - before, memory.header, WANTED)


def collect_bucket(k: Kernel) -> None:
    """Kernel of blocks: list the logits of the chosen bucket."""
    memory, number, block = block_of_chunk(k)
    buckets, chosen = _Buckets(k, memory), k.load(i32, memory.header, BUCKET)
    tokens = List(k, memory, number)
    own = k.load(f64, memory.histogram(number), k.maximum(chosen, k.constant(i32, 0)).to(i64) * 8)
    with k.when((chosen >= 0) & (own > 0.0)), block.vectors() as (_, x, ids):
        wanted = x >= buckets.low
        inside = buckets.numbers(k.select(wanted, x, buckets.top)).equals(chosen.splat(LANES))
        tokens.add(wanted & inside, keys_of(k, x), ids)
    tokens.end()


def last_of_nucleus(k: Kernel) -> None:
    """Kernel of rows: the last token of the nucleus, among those of the bucket."""
    memory = RowMemory(k, k.chunk)
    keys, ids, listed = joined(k, memory, HIGHEST)
    with k.when(listed > 0):
        token = _last(k, memory, keys, ids, listed)
        k.store(token.to(i64), k.pointer("results"), memory.row * 8)


def _last(k: Kernel, memory: RowMemory, keys: Value, ids: Value, listed: Value) -> Value:
    wanted, weights = k.load(f64, memory.header, WANTED), memory.list_of(2, k.integer(0))
    top, scale = k.load(f32, memory.header, TOP).splat(LANES), memory.scale.splat(LANES)
    lowest = k.variable(k.constant(INTS, HIGHEST))
    with k.loop(0, listed * 4, BYTES) as offset:
        own = k.load(INTS, keys, offset)
        lowest.set(k.minimum(own, lowest.value))
        k.store(weights_of(k, floats_of(own), top, scale), weights, offset)
    k.store(k.zero(FLOATS), weights, listed * 4)
    mass = partial(_mass, k, keys, weights, listed)
    reached = highest_key(k, lambda bound: mass(bound) >= wanted)
    least = k.maximum(reached, -1 - k.max(-1 - lowest.value))
    following = k.select(least < HIGHEST, least + 1, least)
    ties = RunningSum(k, wanted - mass(following), reached=True)
    with k.loop(0, listed) as index:
        weight = k.load(f32, weights, index * 4).to(f64)
        tied = k.load(i32, keys, index * 4).equals(least)
        ties.add(index, k.select(tied, weight, k.constant(f64, 0.0)))
    place, _ = ties.result()
    return k.load(i32, ids, k.maximum(place, k.integer(0)) * 4)


def _mass(k: Kernel, keys: Value, weights: Value, listed: Value, bound: Value) -> Value:
    """The weight of the listed tokens whose key is at least ``bound``, ``f64``."""
    total = k.variable(k.zero(_WIDE))
    with k.loop(0, listed * 4, BYTES) as offset:
        enough = k.load(INTS, keys, offset) >= bound.splat(LANES)
        total.add(k.select(enough, k.load(FLOATS, weights, offset), k.zero(FLOATS)).to(f64))
    return k.sum(total.value)
