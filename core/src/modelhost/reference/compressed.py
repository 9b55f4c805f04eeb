"""NumPy kernels of attention over pooled tokens, one token at a time."""

from __future__ import annotations

import numpy as np

from modelhost.graph import ops

from .attention import attend, chosen, slots_of, visible_slots
from .registry import Float, Int, PagedCache, kernel


@kernel(ops.pool_windows)
def pool_windows(
    positions: Int,
    position_bias: Float,
    cache: PagedCache,
    block_table: Int,
    sequence_starts: Int,
    context_lengths: Int,
    *,
    stride: int,
) -> Float:
    parts = (cache.window or stride) // stride
    result = np.zeros((len(positions), cache.keys.shape[-1] // parts), np.float32)
    for sequence, table in enumerate(block_table):
        for row in range(*sequence_starts[sequence : sequence + 2].tolist()):
            position = int(positions[row])
            if (position + 1) % stride == 0:
                first = max(0, position + 1 - parts * stride)
                slots = slots_of(cache, table, np.arange(first, position + 1, dtype=np.int32))
                result[row] = _pooled(cache.keys[slots, 0], cache.values[slots, 0], position_bias, parts)
    return result


def _pooled(values: Float, gates: Float, position_bias: Float, parts: int) -> Float:
    """One entry from its tokens ``[n, parts * D]``. Part s of the last windows' tokens, s counted from the end."""
    stride = len(position_bias)
    windows = len(values) // stride
    gates = gates.reshape(windows, stride, parts, -1) + position_bias.reshape(stride, parts, -1)
    values = values.reshape(windows, stride, parts, -1)
    own = [(window, window + parts - windows) for window in range(windows)]
    used = np.concatenate([gates[window, :, part] for window, part in own])
    weights = np.exp(used - used.max(axis=0))
    weights /= weights.sum(axis=0)
    result: Float = (np.concatenate([values[window, :, part] for window, part in own]) * weights).sum(axis=0)
    return result


@kernel(ops.compressed_attention)
def compressed_attention(
    query: Float,
    cache: PagedCache,
    compressed: PagedCache,
    block_table: Int,
    compressed_table: Int,
    sequence_starts: Int,
    context_lengths: Int,
    sinks: Float | None,
    selected: Int | None,
    *,
    scale: float,
) -> Float:
    tokens, heads, size = query.shape
    kv_heads, value_dim = cache.values.shape[1:]
    shape = (kv_heads, heads // kv_heads)
    grouped = query.reshape(tokens, *shape, size)
    extra = None if sinks is None else sinks.reshape(*shape, 1)
    result = np.empty((tokens, *shape, value_dim), np.float32)
    recent = visible_slots(cache, block_table, sequence_starts, context_lengths)
    pooled = visible_slots(compressed, compressed_table, sequence_starts, context_lengths)
    for (row, _, slots), (_, last, entries) in zip(recent, pooled, strict=True):
        if selected is not None:
            entries = entries[chosen(selected[row], last, len(entries))]
        keys = np.concatenate([cache.keys[slots], compressed.keys[entries]])
        values = np.concatenate([cache.values[slots], compressed.values[entries]])
        result[row] = attend(grouped[row], keys, values, extra, scale, None)
    return result.reshape(tokens, heads, value_dim)
