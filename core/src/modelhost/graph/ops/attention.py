"""Attention over the paged KV cache.

A token's place in the cache is its slot: ``block * block_size + offset``. Row b of a block table lists the blocks of
sequence b in order. The queries of sequence b are rows ``sequence_starts[b]:sequence_starts[b+1]``, and are its last
tokens: with n queries and a context of c tokens they stand at positions ``c-n .. c-1``.
"""

from __future__ import annotations

from modelhost.api.errors import GraphError

from ..cache import CacheSpec
from ..operation import operation, require
from ..tensor import FLOATS, State, Symbol, Tensor


def paged(cache: State) -> CacheSpec:
    """The spec of a paged cache. Raises :class:`GraphError` for a recurrent state."""
    if not isinstance(cache.spec, CacheSpec):
        raise GraphError("cache must be paged, not a recurrent state")
    return cache.spec


@operation(effect=True)
def write_cache(key: Tensor, value: Tensor | None, cache: State, slot_mapping: Tensor) -> None:
    """Store the keys and values of this step's tokens.

    Args:
        key: float ``[T, kv_heads, key_dim]``.
        value: float ``[T, kv_heads, value_dim]``; ``None`` for a latent cache.
        cache: the layer's cache.
        slot_mapping: int32 ``[T]``.
    """
    spec = paged(cache)
    require(key.dtype in FLOATS, f"key must be float, got {key.dtype}")
    require(key.shape[1:] == (spec.kv_heads, spec.key_dim), f"key must be [T, {spec.kv_heads}, {spec.key_dim}]")
    require((value is None) == spec.latent, "a latent cache takes keys only, any other keys and values")
    if value is not None:
        wanted = (spec.kv_heads, spec.value_dim)
        require(value.shape[1:] == wanted, f"value must be [T, {spec.kv_heads}, {spec.value_dim}]")
        require(key.dtype == value.dtype and key.dtype in FLOATS, "key and value must have the same float dtype")
        require(key.shape[0] == value.shape[0], "key and value must have the same number of tokens")
    require(slot_mapping.dtype == "int32" and slot_mapping.shape == key.shape[:1], "slot_mapping must be int32 [T]")


@operation()
def attention(
    query: Tensor,
    cache: State,
    block_table: Tensor,
    sequence_starts: Tensor,
    context_lengths: Tensor,
    sinks: Tensor | None = None,
    selected: Tensor | None = None,
    *,
    scale: float,
    soft_cap: float | None = None,
) -> Tensor:
    """Causal grouped-query attention of this step's tokens over all cached ones, their own included.

    ``softmax(cap(scale * query . key)) . value`` over the keys at or before the query's position and, when the cache
    has a window, fewer than ``window`` positions before it.

    Args:
        query: float ``[T, heads, key_dim]``; head h reads key/value head ``h // (heads / kv_heads)``.
        cache: the layer's cache, this step's tokens already written.
        block_table: int32 ``[B, blocks]``.
        sequence_starts: int32 ``[B+1]``.
        context_lengths: int32 ``[B]``, tokens of each sequence up to and with this step's.
        sinks: ``[heads]``; each joins the softmax of its head as one more score, without a value.
        selected: int32 ``[T, S]``, the only positions that each token may see; -1 stands for none. A token sees at
            least one, unless there are sinks.
        scale: multiplies the scores.
        soft_cap: scores become ``soft_cap * tanh(score / soft_cap)`` before masking (Gemma 2).

    Returns:
        ``[T, heads, value_dim]`` in the dtype of ``query``.
    """
    spec = paged(cache)
    require(sinks is None or sinks.shape == query.shape[1:2], "sinks must have one value for each head")
    require(
        selected is None or (selected.dtype == "int32" and selected.shape[:1] == query.shape[:1]),
        "selected must be int32 [tokens, positions]",
    )
    require(query.dtype in FLOATS and len(query.shape) == 3, "query must be float [tokens, heads, dimensions]")
    tokens, heads, size = query.shape
    require(size == spec.key_dim, f"query has {size} dimensions, the cached keys {spec.key_dim}")
    require(
        isinstance(heads, int) and heads % spec.kv_heads == 0,
        f"{heads} heads do not divide among {spec.kv_heads} KV heads",
    )
    sequences = context_lengths.shape[0]
    require(all(t.dtype == "int32" for t in (block_table, sequence_starts, context_lengths)), "indices must be int32")
    starts = sequences + 1 if isinstance(sequences, int | Symbol) else None
    require(sequence_starts.shape == (starts,), f"sequence_starts must be [{starts}]")
    require(
        len(block_table.shape) == 2 and block_table.shape[0] == sequences, f"block_table must be [{sequences}, blocks]"
    )
    return query.like(shape=(tokens, heads, spec.value_dim))
