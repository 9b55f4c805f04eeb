"""Choosing the tokens that sparse attention looks at."""

from __future__ import annotations

from ..operation import operation, require
from ..tensor import FLOATS, State, Tensor
from .attention import paged


@operation()
def index_top_k(
    query: Tensor,
    head_weights: Tensor,
    cache: State,
    block_table: Tensor,
    sequence_starts: Tensor,
    context_lengths: Tensor,
    *,
    top_k: int,
) -> Tensor:
    """The positions with the highest scores for each token (the lightning indexer of DeepSeek-V3.2, 2025).

    The score of a visible key is ``sum_h head_weights[t, h] * max(query[t, h] . key, 0)``, in float32. Visible are the
    keys that :func:`~modelhost.graph.ops.attention` would see. On a tie the earlier position wins.

    Args:
        query: float ``[T, heads, key_dim]``.
        head_weights: float ``[T, heads]``.
        cache: latent, one head, so that it holds keys only; this step's keys already written.
        block_table: int32 ``[B, blocks]``.
        sequence_starts: int32 ``[B+1]``.
        context_lengths: int32 ``[B]``.
        top_k: how many positions to choose; all that are visible where these are fewer.

    Returns:
        int32 ``[T, top_k]``, rising, then -1 where there are fewer. What ``selected`` of the attention ops takes.
    """
    spec = paged(cache)
    require(spec.latent and spec.kv_heads == 1, "cache must be latent, of one head")
    require(query.dtype in FLOATS and len(query.shape) == 3, "query must be float [tokens, heads, dimensions]")
    require(query.shape[2] == spec.key_dim, f"query has {query.shape[2]} dimensions, the keys {spec.key_dim}")
    require(
        head_weights.dtype in FLOATS and head_weights.shape == query.shape[:2], "head_weights must be float [T, heads]"
    )
    require(all(t.dtype == "int32" for t in (block_table, sequence_starts, context_lengths)), "indices must be int32")
    require(top_k > 0, f"top_k must be positive, got {top_k}")
    return Tensor("int32", (query.shape[0], top_k))
