"""NumPy kernels of latent attention and of the choice of tokens for sparse attention."""

from __future__ import annotations

import numpy as np

from modelhost.graph import ops

from .attention import attend, chosen, visible_slots
from .kernels import linear
from .registry import Float, Int, PagedCache, kernel


@kernel(ops.head_linear)
def head_linear(x: Float, weight: Float, *, rows: tuple[int, int], transpose: bool) -> Float:
    tokens, heads, _ = x.shape
    used = weight.reshape(heads, -1, weight.shape[1])[:, rows[0] : rows[1]]
    if transpose:
        used = np.ascontiguousarray(used.transpose(0, 2, 1))
    result = np.empty((tokens, heads, used.shape[1]), np.float32)
    for row, out in zip(x, result, strict=True):
        for head in range(heads):
            out[head] = np.dot(used[head], row[head])
    return result


@kernel(ops.latent_attention)
def latent_attention(
    query: Float,
    up_projection: Float,
    cache: PagedCache,
    block_table: Int,
    sequence_starts: Int,
    context_lengths: Int,
    selected: Int | None,
    *,
    scale: float,
    value_dim: int,
) -> Float:
    """The expanded form: keys and values of every head are made from the latents."""
    tokens, heads, _ = query.shape
    result = np.empty((tokens, heads, value_dim), np.float32)
    views = list(visible_slots(cache, block_table, sequence_starts, context_lengths))
    used = np.unique(np.concatenate([np.zeros(0, np.int64), *(slots for _, _, slots in views)]))
    keys, values = _expanded(cache, used, up_projection, heads, value_dim)
    for row, position, slots in views:
        if selected is not None:
            slots = slots[chosen(selected[row], position, len(slots))]
        places = np.searchsorted(used, slots)
        result[row] = attend(query[row][:, None], keys[places], values[places], None, scale, None)[:, 0]
    return result


def _expanded(cache: PagedCache, slots: Int, up_projection: Float, heads: int, value_dim: int) -> tuple[Float, Float]:
    """Keys ``[n, heads, K + R]`` and values ``[n, heads, value_dim]`` of the tokens in ``slots``."""
    latents, rotated = np.split(cache.keys[slots, 0], [cache.values.shape[-1]], axis=-1)
    made = linear(latents, up_projection, None).reshape(len(slots), heads, len(up_projection) // heads)
    keys, values = np.split(made, [made.shape[-1] - value_dim], axis=-1)
    shared = np.broadcast_to(rotated[:, None], (len(slots), heads, rotated.shape[-1]))
    return np.concatenate([keys, shared], axis=-1), np.ascontiguousarray(values)


@kernel(ops.index_top_k)
def index_top_k(
    query: Float,
    head_weights: Float,
    cache: PagedCache,
    block_table: Int,
    sequence_starts: Int,
    context_lengths: Int,
    *,
    top_k: int,
) -> Int:
    result = np.full((len(query), top_k), -1, np.int32)
    for row, position, slots in visible_slots(cache, block_table, sequence_starts, context_lengths):
        products = np.array([np.dot(query[row], key) for key in cache.keys[slots, 0]])
        scores = np.array([np.dot(head_weights[row], np.maximum(column, np.float32(0))) for column in products])
        best = np.sort(np.argsort(-scores, kind="stable")[:top_k])
        result[row, : len(best)] = best + (position + 1 - len(slots))
    return result
