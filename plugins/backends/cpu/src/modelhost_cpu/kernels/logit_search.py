"""Finding tokens: keys that order logits, lists of tokens, and where a running sum of weights passes a goal."""

from __future__ import annotations

from collections.abc import Callable

from modelhost_cpu.language.math import exp2_of_negative
from modelhost_cpu.language.types import f32, f64, i16, i32, i64, like
from modelhost_cpu.language.value import Value
from modelhost_cpu.language.vectors import LANES
from modelhost_cpu.native.kernel import Kernel

from .logit_memory import COLLECTED, HIGHEST, INTS, LOWEST, RowMemory


def any_of(k: Kernel, bits: Value) -> Value:
    """Whether one of sixteen bits is set."""
    return bits.bits(i16).to(i32, unsigned=True) > 0


def keys_of(k: Kernel, x: Value) -> Value:
    """Integers in the order of floats: equal for both zeros, and the highest for NaN."""
    bits = (x + 0.0).bits(like(x.type, i32))
    keys = bits ^ (bits.shift_right_signed(31) & HIGHEST)
    return k.select(x.equals(x), keys, k.constant(keys.type, HIGHEST))


def floats_of(keys: Value) -> Value:
    """The floats that :func:`keys_of` made keys of."""
    return (keys ^ (keys.shift_right_signed(31) & HIGHEST)).bits(like(keys.type, f32))


def weights_of(k: Kernel, x: Value, top: Value, scale: Value) -> Value:
    """``exp((x - top) / temperature)`` of vectors; undefined for NaN and where ``top`` is infinite."""
    return exp2_of_negative(k, (x - top) * scale)


def highest_key(k: Kernel, reached: Callable[[Value], Value]) -> Value:
    """The highest key (``i32``) for which ``reached`` is set, bit by bit from the top; the lowest key where none is.

    Args:
        reached: gives a bit that is set for all keys up to some key.
    """
    bound = k.variable(k.constant(i32, LOWEST))
    with k.loop(0, 32) as step:
        candidate = bound.value + (k.integer(1) << (31 - step)).to(i32)
        bound.set(k.select(reached(candidate), candidate, bound.value))
    return bound.value


class List:
    """The tokens that a block puts into its lists of keys and ids."""

    def __init__(self, k: Kernel, memory: RowMemory, block: Value) -> None:
        self._k = k
        self._keys, self._ids = memory.list_of(0, block), memory.list_of(1, block)
        self._count = k.variable(k.integer(0))
        self._record = memory.record(block)

    def add(self, wanted: Value, keys: Value, ids: Value) -> None:
        """Add the lanes for which the bit ``wanted`` is set."""
        k = self._k
        with k.when(any_of(k, wanted)):
            for lane in range(LANES):
                offset = self._count.value * 4
                k.store(keys.lane(lane), self._keys, offset)
                k.store(ids.lane(lane), self._ids, offset)
                self._count.add(wanted.lane(lane).to(i64, unsigned=True))

    def end(self) -> None:
        """Note how many there are."""
        self._k.store(self._count.value.to(i32), self._record, COLLECTED)


def joined(k: Kernel, memory: RowMemory, filler: int) -> tuple[Value, Value, Value]:
    """Move the lists of all blocks together. They are filled up to whole vectors with the key ``filler``.

    Returns:
        the keys, the ids and their number.
    """
    start = k.integer(0)
    keys, ids, count = memory.list_of(0, start), memory.list_of(1, start), k.variable(k.integer(0))
    with memory.each_record() as (block, record):
        own_keys, own_ids = memory.list_of(0, block), memory.list_of(1, block)
        with k.loop(0, k.load(i32, record, COLLECTED).to(i64)) as index:
            place = count.value * 4
            k.store(k.load(i32, own_keys, index * 4), keys, place)
            k.store(k.load(i32, own_ids, index * 4), ids, place)
            count.add(k.integer(1))
    k.store(k.constant(INTS, filler), keys, count.value * 4)
    return keys, ids, count.value


class RunningSum:
    """Finds the entry where a running sum of weights (``f64``, not negative) passes a goal.

    Args:
        goal: to be exceeded.
        reached: it is enough to reach it.
    """

    def __init__(self, k: Kernel, goal: Value, *, reached: bool = False) -> None:
        self._k, self._goal, self._reached = k, goal, reached
        none, zero = k.integer(-1), k.constant(f64, 0.0)
        self._sum, self._found, self._before = k.variable(zero), k.variable(none), k.variable(zero)
        self._last, self._before_last = k.variable(none), k.variable(zero)

    def add(self, entry: Value, weight: Value) -> None:
        """Add the next entry."""
        k, before = self._k, self._sum.value
        self._sum.set(before + weight)
        passed = self._sum.value >= self._goal if self._reached else self._sum.value > self._goal
        hit = passed & (self._found.value < 0)
        self._found.set(k.select(hit, entry, self._found.value))
        self._before.set(k.select(hit, before, self._before.value))
        self._last.set(k.select(weight > 0.0, entry, self._last.value))
        self._before_last.set(k.select(weight > 0.0, before, self._before_last.value))

    def result(self) -> tuple[Value, Value]:
        """The entry and the sum of those before it.

        Where rounding leaves none it is the last one that has weight; -1 where none has.
        """
        k, found = self._k, self._found.value
        return (
            k.select(found < 0, self._last.value, found),
            k.select(found < 0, self._before_last.value, self._before.value),
        )
