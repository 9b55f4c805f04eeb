"""Attention over pooled tokens: a cache has one entry for every ``stride`` of them (DeepSeek-V4, 2026).

The paged caches are those of :mod:`modelhost.graph.ops.attention`. A token sees the entries that are complete with it.
"""

from __future__ import annotations

from ..operation import operation, require
from ..tensor import FLOATS, State, Tensor
from .attention import paged


@operation()
def pool_windows(
    positions: Tensor,
    position_bias: Tensor,
    cache: State,
    block_table: Tensor,
    sequence_starts: Tensor,
    context_lengths: Tensor,
    *,
    stride: int,
) -> Tensor:
    """Pool the last tokens of a sequence into one entry wherever ``stride`` more are complete.

    The cache holds for every token values and, in the place of values, gates. Both consist of S parts of D numbers, S
    being the window of the cache divided by ``stride``: part s of a token belongs to the entry that is complete
    ``S - 1 - s`` entries after the token's own, so that entries overlap when S > 1. An entry is, for each of its D
    numbers, the average of the values with ``softmax(gate + position_bias[position % stride])`` as weights. Computed in
    float32.

    Args:
        positions: int32 ``[T]``.
        position_bias: ``[stride, S * D]``.
        cache: one head, ``key_dim = value_dim = S * D``, window ``S * stride``; this step's tokens already written.
        block_table: int32 ``[B, blocks]``.
        sequence_starts: int32 ``[B+1]``.
        context_lengths: int32 ``[B]``.

    Returns:
        float32 ``[T, D]``: the entry that is complete with the token; zeros for tokens that complete none.
    """
    spec = paged(cache)
    require(stride > 0, f"stride must be positive, got {stride}")
    require(spec.window is not None and spec.window % stride == 0, f"the window must be a multiple of {stride}")
    parts = (spec.window or stride) // stride
    require(spec.kv_heads == 1 and not spec.latent, "cache must hold keys and values of one head")
    require(spec.key_dim == spec.value_dim and spec.key_dim % parts == 0, f"cache must hold {parts} parts of one size")
    require(position_bias.shape == (stride, spec.key_dim), f"position_bias must be [{stride}, {spec.key_dim}]")
    _check_indices(positions, block_table, sequence_starts, context_lengths)
    require(len(positions.shape) == 1, "positions must have one dimension")
    return Tensor("float32", (positions.shape[0], spec.key_dim // parts))


@operation()
def compressed_attention(
    query: Tensor,
    cache: State,
    compressed: State,
    block_table: Tensor,
    compressed_table: Tensor,
    sequence_starts: Tensor,
    context_lengths: Tensor,
    sinks: Tensor | None = None,
    selected: Tensor | None = None,
    *,
    scale: float,
) -> Tensor:
    """Causal grouped-query attention over recent tokens and over entries that stand for many, in one softmax.

    Args:
        query: float ``[T, heads, key_dim]``; head h reads key/value head ``h // (heads / kv_heads)``.
        cache: of tokens, as :func:`~modelhost.graph.ops.attention` takes it.
        compressed: of entries, with a stride; otherwise like ``cache``.
        block_table: int32 ``[B, blocks]``, of ``cache``.
        compressed_table: int32 ``[B, blocks]``, of ``compressed``.
        sequence_starts: int32 ``[B+1]``.
        context_lengths: int32 ``[B]``, tokens.
        sinks: ``[heads]``; each joins the softmax of its head as one more score, without a value.
        selected: int32 ``[T, S]``, the only entries of ``compressed`` that each token may see; -1 stands for none.
        scale: multiplies the scores.

    Returns:
        ``[T, heads, value_dim]`` in the dtype of ``query``.
    """
    spec, other = paged(cache), paged(compressed)
    sizes = (spec.kv_heads, spec.key_dim, spec.value_dim)
    require(sizes == (other.kv_heads, other.key_dim, other.value_dim), "both caches must have the same heads and sizes")
    require(spec.stride == 1 and other.stride > 1, "compressed must have a stride, cache none")
    require(query.dtype in FLOATS and len(query.shape) == 3, "query must be float [tokens, heads, dimensions]")
    tokens, heads, size = query.shape
    require(size == spec.key_dim, f"query has {size} dimensions, the cached keys {spec.key_dim}")
    require(
        isinstance(heads, int) and heads % spec.kv_heads == 0,
        f"{heads} heads do not divide among {spec.kv_heads} KV heads",
    )
    require(sinks is None or sinks.shape == (heads,), "sinks must have one value for each head")
    require(
        selected is None or (selected.dtype == "int32" and selected.shape[:1] == (tokens,)),
        "selected must be int32 [tokens, entries]",
    )
    _check_indices(block_table, compressed_table, sequence_starts, context_lengths)
    return query.like(shape=(tokens, heads, spec.value_dim))


def _check_indices(*indices: Tensor) -> None:
    require(all(tensor.dtype == "int32" for tensor in indices), "indices must be int32")
