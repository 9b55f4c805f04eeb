"""Attention over a cache of latents (multi-head latent attention, DeepSeek-V2, 2024)."""

from __future__ import annotations

from ..operation import operation, require
from ..tensor import FLOATS, State, Tensor
from .attention import attention, paged
from .shape import concatenate, split


@operation()
def head_linear(x: Tensor, weight: Tensor, *, rows: tuple[int, int], transpose: bool = False) -> Tensor:
    """A projection of its own for every head.

    Head h has rows ``h*R .. (h+1)*R - 1`` of ``weight``, of which those from ``rows[0]`` to ``rows[1] - 1`` are used:
    ``W_h`` of shape ``[n, C]``. The result is ``x_h @ W_h.T``, or ``x_h @ W_h`` with ``transpose``.

    Args:
        x: float ``[T, H, C]``, or ``[T, H, n]`` with ``transpose``.
        weight: ``[H*R, C]`` in any encoding.

    Returns:
        ``[T, H, n]``, or ``[T, H, C]`` with ``transpose``.
    """
    require(x.dtype in FLOATS and len(x.shape) == 3, "x must be float [tokens, heads, features]")
    require(len(weight.shape) == 2, "weight must have two dimensions")
    heads, features, total = x.shape[1], x.shape[2], weight.shape[0]
    require(
        isinstance(heads, int) and isinstance(total, int) and total % heads == 0,
        f"{total} rows do not divide among {heads} heads",
    )
    per_head = total // heads if isinstance(total, int) and isinstance(heads, int) else 0
    require(0 <= rows[0] < rows[1] <= per_head, f"rows {rows} are not within the {per_head} rows of a head")
    count, columns = rows[1] - rows[0], weight.shape[1]
    require(
        features == (count if transpose else columns),
        f"x has {features} features, wanted {count if transpose else columns}",
    )
    return x.like(shape=(x.shape[0], heads, columns if transpose else count))


@operation()
def latent_attention(
    query: Tensor,
    up_projection: Tensor,
    cache: State,
    block_table: Tensor,
    sequence_starts: Tensor,
    context_lengths: Tensor,
    selected: Tensor | None = None,
    *,
    scale: float,
    value_dim: int,
) -> Tensor:
    """Causal attention whose keys and values are projections of cached latents.

    The cache holds for every token a latent of L numbers and a rotated part of R numbers that all heads share.
    ``up_projection`` has for each head the rows that make its key from the latent, then those that make its value. A
    head's query is ``[for the projected key | for the rotated part]``.

    Its decomposition never makes keys: the query is projected into the space of latents, which suits single tokens. A
    backend may make keys and values instead, which suits long prompts; both are equal but for rounding.

    Args:
        query: float ``[T, H, K + R]``.
        up_projection: ``[H * (K + value_dim), L]`` in any encoding.
        cache: latent, one head, ``key_dim = L + R``, ``value_dim = L``; this step's tokens already written.
        block_table: int32 ``[B, blocks]``.
        sequence_starts: int32 ``[B+1]``.
        context_lengths: int32 ``[B]``.
        selected: int32 ``[T, S]``, the only positions that each token may see; -1 stands for none. A token sees at
            least one.
        scale: multiplies the scores.
        value_dim: size of a head's value.

    Returns:
        ``[T, H, value_dim]`` in the dtype of ``query``.
    """
    spec = paged(cache)
    require(spec.latent and spec.kv_heads == 1, "cache must be latent, of one head")
    key_rows(query, up_projection, cache, value_dim)
    return query.like(shape=(*query.shape[:2], value_dim))


def key_rows(query: Tensor, up_projection: Tensor, cache: State, value_dim: int) -> int:
    """How many rows of each head of the up-projection make its key; checks the shapes."""
    spec = paged(cache)
    heads, total, size = query.shape[1], up_projection.shape[0], query.shape[2]
    if not (isinstance(heads, int) and isinstance(total, int) and isinstance(size, int)):
        require(False, "heads and sizes must be known")
        return 0
    require(total % heads == 0, f"{total} rows of up_projection do not divide among {heads} heads")
    require(up_projection.shape[1] == spec.value_dim, f"up_projection must take latents of {spec.value_dim}")
    rows = total // heads - value_dim
    rotated = spec.key_dim - spec.value_dim
    require(rows + rotated == size, f"query must have {rows} + {rotated} numbers for each head, got {size}")
    return rows


@latent_attention.decomposition
def _absorbed(
    query: Tensor,
    up_projection: Tensor,
    cache: State,
    block_table: Tensor,
    sequence_starts: Tensor,
    context_lengths: Tensor,
    selected: Tensor | None = None,
    *,
    scale: float,
    value_dim: int,
) -> Tensor:
    keys = key_rows(query, up_projection, cache, value_dim)
    rotated = int(query.shape[2]) - keys if isinstance(query.shape[2], int) else 0
    parts = split(query, sizes=(keys, rotated)) if rotated else (query,)
    absorbed = head_linear(parts[0], up_projection, rows=(0, keys), transpose=True)
    absorbed = concatenate(absorbed, parts[1]) if rotated else absorbed
    mixed = attention(absorbed, cache, block_table, sequence_starts, context_lengths, None, selected, scale=scale)
    return head_linear(mixed, up_projection, rows=(keys, keys + value_dim))
