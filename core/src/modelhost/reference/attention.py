"""NumPy kernels of the paged cache and of attention over it, one token at a time."""

from __future__ import annotations

from typing import Any

import numpy as np

from modelhost.graph import ops

from .registry import Float, Int, PagedCache, kernel


@kernel(ops.write_cache)
def write_cache(key: Float, value: Float | None, cache: PagedCache, slot_mapping: Int) -> tuple[()]:
    cache.keys[slot_mapping] = key
    if value is not None:
        cache.values[slot_mapping] = value
    return ()


@kernel(ops.attention)
def attention(
    query: Float,
    cache: PagedCache,
    block_table: Int,
    sequence_starts: Int,
    context_lengths: Int,
    sinks: Float | None = None,
    selected: Int | None = None,
    *,
    scale: float,
    soft_cap: float | None,
) -> Float:
    tokens, heads, size = query.shape
    kv_heads, value_dim = cache.values.shape[1:]
    shape = (kv_heads, heads // kv_heads)
    grouped = query.reshape(tokens, *shape, size)
    extra = None if sinks is None else sinks.reshape(*shape, 1)
    result = np.empty((tokens, *shape, value_dim), np.float32)
    for row, position, slots in visible_slots(cache, block_table, sequence_starts, context_lengths):
        if selected is not None:
            slots = slots[chosen(selected[row], position, len(slots))]
        result[row] = attend(grouped[row], cache.keys[slots], cache.values[slots], extra, scale, soft_cap)
    return result.reshape(tokens, heads, value_dim)


def visible_slots(cache: PagedCache, block_table: Int, sequence_starts: Int, context_lengths: Int) -> Any:
    """For every token its row, the number of the last entry that it sees, and the slots of all of them, oldest first.

    Without a stride, an entry is a token, and the last one is the token itself.
    """
    for sequence, context in enumerate(context_lengths.tolist()):
        start, end = sequence_starts[sequence : sequence + 2].tolist()
        slots = slots_of(cache, block_table[sequence], np.arange(context // cache.stride, dtype=np.int32))
        for row in range(start, end):
            last = (context - (end - row) + 1) // cache.stride - 1
            low = 0 if cache.window is None else max(0, last - cache.window + 1)
            yield row, last, slots[low : last + 1]


def slots_of(cache: PagedCache, table: Int, entries: Int) -> Int:
    """Where ``entries`` of the sequence with the blocks in ``table`` are."""
    return table[entries // cache.block_size] * cache.block_size + entries % cache.block_size


def chosen(selected: Int, last: int, visible: int) -> Int:
    """Indices into the visible slots, of which the ``last`` entry has the last, of the entries in ``selected``."""
    places = np.unique(selected[selected >= 0]) - (last + 1 - visible)
    return places[(places >= 0) & (places < visible)]


def attend(
    query: Float, keys: Float, values: Float, sinks: Float | None, scale: float, soft_cap: float | None
) -> Float:
    """Attention of one token.

    Args:
        query: ``[kv_heads, group, key_dim]``.
        keys: ``[n, kv_heads, key_dim]``.
        values: ``[n, kv_heads, value_dim]``.
        sinks: ``[kv_heads, group, 1]``.
    """
    scores = np.matmul(query, keys.transpose(1, 2, 0)) * np.float32(scale)
    if soft_cap is not None:
        scores = np.float32(soft_cap) * np.tanh(scores / np.float32(soft_cap))
    if sinks is not None:
        scores = np.concatenate([scores, sinks], axis=-1)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    result: Float = np.matmul(weights[..., : len(keys)], values.transpose(1, 0, 2))
    return result
