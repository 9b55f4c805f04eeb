"""Rows of ``f32`` as vectors of sixteen, the last one in part."""

from __future__ import annotations

from collections.abc import Iterator
from math import gcd
from typing import Any

from .function import Function
from .types import f32, vector
from .value import Value

LANES = 16
BYTES = 4 * LANES
FLOATS = vector(f32, LANES)


def each_vector(k: Function, columns: int) -> Iterator[tuple[Value, int]]:
    """Write a loop over a row of ``columns`` elements: the offset in bytes of each vector and how many lanes it fills.

    The body is written once for all whole vectors, and once more for the rest if there is one.
    """
    whole, rest = divmod(columns, LANES)
    if whole:
        with k.loop(0, whole * BYTES, BYTES) as offset:
            yield offset, LANES
    if rest:
        yield k.integer(whole * BYTES), rest


def even_part(count: int) -> Any:
    """The type of as many of ``count`` elements as leave no rest: a vector of up to sixteen lanes, or a scalar."""
    lanes = gcd(count, LANES)
    return vector(f32, lanes) if lanes > 1 else f32


def load_part(k: Function, pointer: Value, offset: Value | int, count: int) -> Value:
    """The first ``count`` lanes at ``pointer + offset`` bytes, zeros in the others."""
    if count == LANES:
        return k.load(FLOATS, pointer, offset)
    return k.load_masked(FLOATS, pointer + offset, k.integer(count))


def store_part(k: Function, value: Value, pointer: Value, offset: Value | int, count: int) -> None:
    """Write the first ``count`` lanes."""
    if count == LANES:
        k.store(value, pointer, offset)
    else:
        k.store_masked(value, pointer + offset, k.integer(count))
