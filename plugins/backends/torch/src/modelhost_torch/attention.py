"""The paged cache and attention over it.

The queries of a step are cut into parts that attend in one call. Sequences with one query (decoding) of about the same
length share a part; a longer run of queries is one part, or several when its mask would be large. Within a part the
query heads of one key/value head are laid out as further query rows, so keys and values are read once for the group.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F

from .attention_plan import Part

Tensor = torch.Tensor


@dataclass(frozen=True, slots=True)
class PagedCache:
    """One layer's cache: ``keys`` ``[slots, kv_heads, key_dim]``, ``values`` ``[slots, kv_heads, value_dim]``.

    The values of a latent cache are a view of its keys.
    """

    keys: Tensor
    values: Tensor
    latent: bool = False

    def gather(self, part: Part) -> tuple[Tensor, Tensor]:
        """Keys and values of ``part``, each ``[sequences, kv_heads, tokens, dim]``."""
        keys = _gather(self.keys, part)
        return keys, keys[..., : self.values.shape[-1]] if self.latent else _gather(self.values, part)


def write_cache(key: Tensor, value: Tensor | None, cache: PagedCache, slot_mapping: Tensor) -> tuple[()]:
    """Store the step's keys and values."""
    cache.keys.index_copy_(0, slot_mapping, key)
    if value is not None:
        cache.values.index_copy_(0, slot_mapping, value)
    return ()


def attention(
    query: Tensor,
    cache: PagedCache,
    sinks: Tensor | None,
    selected: Tensor | None,
    parts: list[Part],
    *,
    scale: float,
    soft_cap: float | None,
) -> Tensor:
    """``[T, heads, value_dim]`` for ``query`` ``[T, heads, key_dim]``."""

    def attend_part(part: Part, query: Tensor, selected: Tensor | None) -> Tensor:
        keys, values = cache.gather(part)
        return attend(query, keys, values, part, scale, soft_cap=soft_cap, sinks=sinks, selected=selected)

    return over_parts(attend_part, query, selected, parts, cache.values.shape[-1])


def over_parts(
    attend_part: Callable[[Part, Tensor, Tensor | None], Tensor],
    query: Tensor,
    selected: Tensor | None,
    parts: list[Part],
    value_dim: int,
) -> Tensor:
    """The results of all parts in the order of ``query``'s rows, ``[T, heads, value_dim]``."""
    if len(parts) == 1 and parts[0].all_rows:
        return attend_part(parts[0], query, selected)
    result = query.new_empty(*query.shape[:2], value_dim)
    for part in parts:
        rows = part.rows
        result[rows] = attend_part(part, query[rows], None if selected is None else selected[rows])
    return result


def attend(
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    part: Part,
    scale: float,
    *,
    soft_cap: float | None = None,
    sinks: Tensor | None = None,
    selected: Tensor | None = None,
) -> Tensor:
    """Attention of one part's queries ``[rows, heads, key_dim]`` over its keys ``[sequences, kv_heads, tokens, dim]``.

    Args:
        sinks: ``[heads]``.
        selected: positions ``[rows, positions]``.
    """
    plain = soft_cap is None and sinks is None
    if part.causal and plain and selected is None:
        return _attend_causally(query, keys, values, scale)
    rows, heads, _size = query.shape
    kv_heads, count = keys.shape[1], part.sequences
    group = heads // kv_heads
    folded = fold(query, part, kv_heads)
    mask = part.mask()
    if selected is not None:
        chosen = part.selection(selected, keys.shape[2], group)
        mask = chosen if mask is None else mask & chosen
    if plain:
        attended = F.scaled_dot_product_attention(folded, keys, values, attn_mask=mask, scale=scale)
    else:
        column = None if sinks is None else sinks.view(kv_heads, 1, group).expand(-1, rows // count, -1)
        attended = _attend_explicitly(folded, keys, values, mask, scale, soft_cap, column)
    return unfold(attended, group)


def fold(query: Tensor, part: Part, kv_heads: int) -> Tensor:
    """``[rows, heads, size]`` as ``[sequences, kv_heads, rows of a sequence * group, size]``."""
    rows, heads, size = query.shape
    grouped = query.view(part.sequences, rows // part.sequences, kv_heads, heads // kv_heads, size)
    return grouped.transpose(1, 2).reshape(part.sequences, kv_heads, -1, size)


def unfold(attended: Tensor, group: int) -> Tensor:
    """What :func:`fold` does undone."""
    sequences, kv_heads, folded, size = attended.shape
    rows = folded // group
    return attended.view(sequences, kv_heads, rows, group, size).transpose(1, 2).reshape(-1, kv_heads * group, size)


def _gather(stored: Tensor, part: Part) -> Tensor:
    """``[sequences, kv_heads, tokens, dim]``; a view where the slots are consecutive."""
    rows = stored[part.slots] if isinstance(part.slots, slice) else stored.index_select(0, part.slots)
    return rows.view(part.sequences, -1, *stored.shape[1:]).transpose(1, 2)


def _attend_causally(query: Tensor, keys: Tensor, values: Tensor, scale: float) -> Tensor:
    """A whole sequence over itself: no mask to build, and kernels that skip what is masked."""
    grouped = query.shape[1] != keys.shape[1]
    result = F.scaled_dot_product_attention(
        query.transpose(0, 1)[None], keys, values, is_causal=True, scale=scale, enable_gqa=grouped
    )
    return result[0].transpose(0, 1)


def _attend_explicitly(
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    mask: Tensor | None,
    scale: float,
    cap: float | None,
    sinks: Tensor | None,
) -> Tensor:
    """Scores in float32, for what no fused kernel computes.

    Args:
        sinks: ``[kv_heads, queries, group]``, one more score for each row.
    """
    scores = query.float() @ keys.float().transpose(-1, -2)
    scores = scores.mul_(scale) if cap is None else scores.mul_(scale / cap).tanh_().mul_(cap)
    if mask is not None:
        scores = scores.masked_fill_(~mask, float("-inf"))
    if sinks is not None:
        column = sinks.float().reshape(1, len(sinks), -1, 1).expand(len(scores), -1, -1, -1)
        scores = torch.cat((scores, column), -1)
    weights = scores.softmax(-1)[..., : keys.shape[2]]
    return weights.to(values.dtype) @ values
