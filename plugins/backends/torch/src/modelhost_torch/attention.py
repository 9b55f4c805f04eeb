"""The paged cache and attention over it.

The queries of a step are cut into parts that attend in one call. Sequences with one query (decoding) of about the same
length share a part; a longer run of queries is one part, or several when its mask would be large. Within a part the
query heads of one key/value head are laid out as further query rows, so keys and values are read once for the group.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F

from .attention_plan import Part

Tensor = torch.Tensor


@dataclass(frozen=True, slots=True)
class PagedCache:
    """One layer's cache: ``keys`` ``[slots, kv_heads, key_dim]``, ``values`` ``[slots, kv_heads, value_dim]``."""

    keys: Tensor
    values: Tensor


def write_cache(key: Tensor, value: Tensor, cache: PagedCache, slot_mapping: Tensor) -> tuple[()]:
    """Store the step's keys and values."""
    cache.keys.index_copy_(0, slot_mapping, key)
    cache.values.index_copy_(0, slot_mapping, value)
    return ()


def attention(query: Tensor, cache: PagedCache, parts: list[Part], *, scale: float, soft_cap: float | None) -> Tensor:
    """``[T, heads, value_dim]`` for ``query`` ``[T, heads, key_dim]``."""
    tokens, heads, _size = query.shape
    if len(parts) == 1 and parts[0].all_rows:
        return _attend(query, cache, parts[0], scale, soft_cap)
    result = query.new_empty(tokens, heads, cache.values.shape[-1])
    for part in parts:
        result[part.rows] = _attend(query[part.rows], cache, part, scale, soft_cap)
    return result


def _attend(query: Tensor, cache: PagedCache, part: Part, scale: float, soft_cap: float | None) -> Tensor:
    keys, values = _gather(cache.keys, part), _gather(cache.values, part)
    if part.causal and soft_cap is None:
        return _attend_causally(query, keys, values, scale)
    rows, heads, size = query.shape
    kv_heads, count = keys.shape[1], part.sequences
    folded = query.view(count, rows // count, kv_heads, heads // kv_heads, size).transpose(1, 2)
    folded = folded.reshape(count, kv_heads, -1, size)
    if soft_cap is None:
        attended = F.scaled_dot_product_attention(folded, keys, values, attn_mask=part.mask(), scale=scale)
    else:
        attended = _attend_capped(folded, keys, values, part.mask(), scale, soft_cap)
    unfolded = attended.view(count, kv_heads, rows // count, heads // kv_heads, -1).transpose(1, 2)
    return unfolded.reshape(rows, heads, -1)


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


def _attend_capped(
    query: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None, scale: float, cap: float
) -> Tensor:
    scores = query.float() @ keys.float().transpose(-1, -2)
    scores = scores.mul_(scale / cap).tanh_().mul_(cap)
    if mask is not None:
        scores = scores.masked_fill_(~mask, float("-inf"))
    return scores.softmax(-1).to(values.dtype) @ values
