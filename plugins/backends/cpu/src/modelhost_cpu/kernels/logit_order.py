"""The greatest logits of rows: the first one, and the first few in order."""

from __future__ import annotations

from collections.abc import Callable

from modelhost_cpu.language.types import i32, i64
from modelhost_cpu.language.value import Value
from modelhost_cpu.language.vectors import BYTES, FLOATS, LANES
from modelhost_cpu.native.kernel import Kernel

from .logit_memory import BOUND, HIGHEST, INTS, KEYS, LOWEST, VECTORS, Block, RowMemory, block_of_chunk
from .logit_search import List, any_of, highest_key, joined, keys_of


def block_keys(k: Kernel) -> None:
    """Kernel of blocks: the greatest keys of sixteen parts of the block."""
    memory, number, block = block_of_chunk(k)
    best = [k.variable(k.constant(FLOATS, float("-inf"))) for _ in range(VECTORS)]
    nans = k.variable(k.zero(INTS))
    with block.groups() as (vectors, _):
        for x, greatest in zip(vectors, best, strict=True):
            greatest.set(k.maximum(x, greatest.value))
            nans.set(k.select(x.equals(x), nans.value, k.constant(INTS, 1)))
    first, second, third, fourth = (greatest.value for greatest in best)
    keys = keys_of(k, k.maximum(k.maximum(first, second), k.maximum(third, fourth)))
    keys = k.select(nans.value > 0, k.constant(INTS, HIGHEST), keys)
    k.store(keys, memory.record(number), KEYS)


def first_greatest(k: Kernel) -> None:
    """Kernel of rows: the id of the first of the greatest logits."""
    memory = RowMemory(k, k.chunk)
    greatest = k.variable(k.constant(INTS, LOWEST))
    with memory.each_record() as (_, record):
        greatest.set(k.maximum(k.load(INTS, record, KEYS), greatest.value))
    top = k.max(greatest.value).splat(LANES)
    found = k.variable(memory.blocks)
    with memory.each_record() as (number, record):
        here = any_of(k, k.load(INTS, record, KEYS).equals(top)) & (found.value >= memory.blocks)
        found.set(k.select(here, number, found.value))
    first = k.variable(k.constant(INTS, HIGHEST))
    with Block(k, memory, found.value).vectors() as (_, x, ids):
        here = keys_of(k, x).equals(top)
        first.set(k.minimum(k.select(here, ids, k.constant(INTS, HIGHEST)), first.value))
    token = -1 - k.max(-1 - first.value)
    k.store(token.to(i64), k.pointer("results"), memory.row * 8)


def bound_of_top(k: Kernel) -> None:
    """Kernel of rows: a key that ``count`` logits reach. As many of the parts of blocks have one that does."""
    memory = RowMemory(k, k.chunk)

    def enough(bound: Value) -> Value:
        total = k.variable(k.zero(INTS))
        with memory.each_record() as (_, record):
            total.add((k.load(INTS, record, KEYS) >= bound.splat(LANES)).to(i32, unsigned=True))
        return k.sum(total.value).to(i64) >= k.number("count")

    k.store(highest_key(k, enough), memory.header, BOUND)


def collect_top(k: Kernel) -> None:
    """Kernel of blocks: list the logits that reach the bound."""
    memory, number, block = block_of_chunk(k)
    bound = k.load(i32, memory.header, BOUND).splat(LANES)
    columns = k.number("columns").to(i32).splat(LANES)
    tokens = List(k, memory, number)
    with (
        k.when(any_of(k, k.load(INTS, memory.record(number), KEYS) >= bound)),
        block.vectors() as (_, x, ids),
    ):
        keys = keys_of(k, x)
        tokens.add((keys >= bound) & (ids < columns), keys, ids)
    tokens.end()


def choose_top(k: Kernel) -> None:
    """Kernel of rows: the ids and keys of the ``count`` greatest of the listed logits, in order of ids."""
    memory, count = RowMemory(k, k.chunk), k.number("count")
    keys, ids, listed = joined(k, memory, LOWEST)

    def number(which: Callable[[Value], Value]) -> Value:
        total = k.variable(k.zero(INTS))
        with k.loop(0, listed * 4, BYTES) as offset:
            total.add(which(k.load(INTS, keys, offset)).to(i32, unsigned=True))
        return k.sum(total.value).to(i64)

    least = highest_key(k, lambda bound: number(lambda own: own >= bound.splat(LANES)) >= count)
    ties = k.variable(count - number(lambda own: own > least.splat(LANES)))
    written = k.variable(k.integer(0))
    result, result_keys = k.pointer("results") + memory.row * count * 8, k.pointer("keys") + memory.row * count * 4
    with k.loop(0, listed) as index:
        key = k.load(i32, keys, index * 4)
        tied = key.equals(least) & (ties.value > 0)
        with k.when((key > least) | tied):
            ties.set(ties.value - tied.to(i64, unsigned=True))
            k.store(k.load(i32, ids, index * 4).to(i64), result, written.value * 8)
            k.store(key, result_keys, written.value * 4)
            written.add(k.integer(1))
