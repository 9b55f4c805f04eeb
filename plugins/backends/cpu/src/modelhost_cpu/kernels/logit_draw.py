"""Drawing a token of every row by a number: sums of the weights of blocks, then the block, the vector and the lane."""

from __future__ import annotations

from modelhost_cpu.language.types import f32, f64, i32, i64, vector
from modelhost_cpu.language.value import Value
from modelhost_cpu.language.vectors import BYTES, FLOATS, LANES
from modelhost_cpu.native.kernel import Kernel

from .logit_memory import (
    GREATEST,
    INTS,
    LARGEST,
    NANS,
    SCALED,
    SMALLEST,
    VECTORS,
    WEIGHT,
    Block,
    RowMemory,
    block_of_chunk,
)
from .logit_search import RunningSum, any_of, weights_of

_WIDE = vector(f64, LANES)


class _Weights:
    """The weights of the tokens of a block that take part, relative to its greatest logit ``top``."""

    def __init__(self, k: Kernel, memory: RowMemory, top: Value) -> None:
        self._k = k
        self._top, self._scale, self._least = (value.splat(LANES) for value in (top, memory.scale, memory.least))
        self._last = memory.last.to(i32).splat(LANES)

    def kept(self, x: Value, ids: Value) -> Value:
        """Bits of the tokens that take part."""
        return (x > self._least) | (x.equals(self._least) & (ids <= self._last))

    def of(self, x: Value, kept: Value) -> Value:
        """The weights, zeros for the others."""
        return self._k.select(kept, weights_of(self._k, x, self._top, self._scale), self._k.zero(FLOATS))


def weigh_blocks(k: Kernel) -> None:
    """Kernel of blocks: the greatest and the smallest finite logit, whether there is NaN, and the sum of the weights.

    Four vectors are added in float32, these sums in float64.
    """
    memory, number, block = block_of_chunk(k)
    greatest, smallest = (k.variable(k.constant(FLOATS, value)) for value in (-LARGEST, float("inf")))
    nans = k.variable(k.zero(INTS))
    lowest, infinite = k.constant(FLOATS, -LARGEST), k.constant(FLOATS, float("inf"))
    with block.groups() as (vectors, _):
        for x in vectors:
            greatest.set(k.maximum(x, greatest.value))
            smallest.set(k.minimum(k.select(x >= lowest, x, infinite), smallest.value))
            nans.set(k.select(x.equals(x), nans.value, k.constant(INTS, 1)))
    top, record = k.max(greatest.value), memory.record(number)
    k.store(top, record, GREATEST)
    k.store(-k.max(-smallest.value), record, SMALLEST)
    k.store(k.max(nans.value), record, NANS)
    weights, total = _Weights(k, memory, top), k.variable(k.zero(_WIDE))
    with k.when(top >= memory.least), block.groups() as (vectors, ids):
        kept = [weights.kept(*each) for each in zip(vectors, ids, strict=True)]
        some = kept[0]
        for bits in kept[1:]:
            some = some | bits
        with k.when(any_of(k, some)):
            parts = [weights.of(*each) for each in zip(vectors, kept, strict=True)]
            total.add(((parts[0] + parts[1]) + (parts[2] + parts[3])).to(f64))
    k.store(k.sum(total.value), record, WEIGHT)


class RowWeights:
    """Code that puts the weights of a row's blocks together. Writes the blocks' shares into their records.

    Attributes:
        top: the greatest logit.
        total: of the weights relative to it, ``f64``.
        valid: a bit: there is something to draw, and no NaN or infinity.
    """

    def __init__(self, k: Kernel, memory: RowMemory) -> None:
        self._k, self._memory = k, memory
        top, nans = k.variable(k.constant(f32, -LARGEST)), k.variable(k.constant(i32, 0))
        total = k.variable(k.constant(f64, 0.0))
        with memory.each_record() as (_, record):
            top.set(k.maximum(k.load(f32, record, GREATEST), top.value))
            nans.set(nans.value | k.load(i32, record, NANS))
        self.top = top.value
        with memory.each_record() as (_, record):
            scaled = k.load(f64, record, WEIGHT) * self.factor(record)
            k.store(scaled, record, SCALED)
            total.add(scaled)
        self.total = total.value
        self.valid = nans.value.equals(0) & (self.top < float("inf")) & (self.total > 0.0)

    def factor(self, record: Value) -> Value:
        """The weight of a block's greatest logit."""
        return weights_of(self._k, self._k.load(f32, record, GREATEST), self.top, self._memory.scale).to(f64)


def draw_token(k: Kernel) -> None:
    """Kernel of rows: the token where the running sum of weights passes the row's share of the whole."""
    memory = RowMemory(k, k.chunk)
    result = k.pointer("results") + memory.row * 8
    k.store(k.integer(-1), result)
    row = RowWeights(k, memory)
    with k.when(row.valid):
        goal = row.total * memory.share
        blocks = RunningSum(k, goal)
        with memory.each_record() as (number, record):
            blocks.add(number, k.load(f64, record, SCALED))
        chosen, before = blocks.result()
        record = memory.record(chosen)
        token = _drawn_of_block(k, memory, chosen, (goal - before) / row.factor(record))
        k.store(token.to(i64), result)


def _drawn_of_block(k: Kernel, memory: RowMemory, number: Value, goal: Value) -> Value:
    block = Block(k, memory, number)
    weights = _Weights(k, memory, k.load(f32, memory.record(number), GREATEST))
    vectors = RunningSum(k, goal)
    with block.vectors() as (index, x, ids):
        vectors.add(index, k.sum(weights.of(x, weights.kept(x, ids))).to(f64))
    chosen, before = vectors.result()
    x, ids = block.vector(chosen)
    lanes, area = RunningSum(k, goal - before), k.scratch + VECTORS * BYTES
    k.store(weights.of(x, weights.kept(x, ids)), area)
    with k.loop(0, LANES) as lane:
        lanes.add(lane, k.load(f32, area, lane * 4).to(f64))
    lane, _ = lanes.result()
    return ids.lane(0) + lane.to(i32)
