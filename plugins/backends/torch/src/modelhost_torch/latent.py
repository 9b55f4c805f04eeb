"""Attention over latents, and the choice of tokens for sparse attention."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from .attention import PagedCache, attend, over_parts
from .attention_plan import Part

Tensor = torch.Tensor


def head_linear(x: Tensor, weight: Tensor, *, rows: tuple[int, int], transpose: bool) -> Tensor:
    """``[T, H, n]``, or ``[T, H, C]`` with ``transpose``."""
    used = weight.to(x.dtype).view(x.shape[1], -1, weight.shape[1])[:, rows[0] : rows[1]]
    return (x.transpose(0, 1) @ (used if transpose else used.transpose(1, 2))).transpose(0, 1)


def latent_attention(
    query: Tensor,
    up_projection: Tensor,
    cache: PagedCache,
    selected: Tensor | None,
    parts: list[Part],
    *,
    scale: float,
    value_dim: int,
) -> Tensor:
    """``[T, H, value_dim]``: single tokens in the absorbed form, runs of tokens in the expanded one."""

    def attend_part(part: Part, query: Tensor, selected: Tensor | None) -> Tensor:
        form = _absorbed if len(query) == part.sequences else _expanded
        return form(query, up_projection, cache, part, selected, scale, value_dim)

    return over_parts(attend_part, query, selected, parts, value_dim)


def _expanded(
    query: Tensor,
    up_projection: Tensor,
    cache: PagedCache,
    part: Part,
    selected: Tensor | None,
    scale: float,
    value_dim: int,
) -> Tensor:
    """Keys and values of every head are made from the latents of one sequence."""
    stored, latents = cache.gather(part)
    heads = query.shape[1]
    made = F.linear(latents[0, 0], up_projection.to(query.dtype))
    made = made.view(len(made), heads, -1)
    rotated = stored[0, 0, :, None, latents.shape[-1] :].expand(-1, heads, -1)
    keys = torch.cat((made[..., :-value_dim], rotated), -1)
    values = made[..., -value_dim:]
    return attend(query, keys.transpose(0, 1)[None], values.transpose(0, 1)[None], part, scale, selected=selected)


def _absorbed(
    query: Tensor,
    up_projection: Tensor,
    cache: PagedCache,
    part: Part,
    selected: Tensor | None,
    scale: float,
    value_dim: int,
) -> Tensor:
    """Queries are projected into the space of latents, and the mixed latents out of it."""
    keys, values = cache.gather(part)
    made = up_projection.shape[0] // query.shape[1]
    count = made - value_dim
    latent_query = head_linear(query[..., :count], up_projection, rows=(0, count), transpose=True)
    absorbed = torch.cat((latent_query, query[..., count:]), -1)
    mixed = attend(absorbed, keys, values, part, scale, selected=selected)
    return head_linear(mixed, up_projection, rows=(count, made), transpose=False)


def index_top_k(query: Tensor, head_weights: Tensor, cache: PagedCache, parts: list[Part], *, top_k: int) -> Tensor:
    """``[T, top_k]``, rising, -1 at the end for none."""
    result = torch.full((len(query), top_k), -1, dtype=torch.int64, device=query.device)
    for part in parts:
        best = _best_positions(query[part.rows], head_weights[part.rows], cache, part, top_k)
        result[part.rows, : best.shape[1]] = best
    return result


def _best_positions(query: Tensor, head_weights: Tensor, cache: PagedCache, part: Part, top_k: int) -> Tensor:
    keys = cache.gather(part)[0][:, 0].float()
    count, total = keys.shape[:2]
    products = query.float().reshape(count, -1, query.shape[-1]) @ keys.transpose(1, 2)
    products = products.relu_().view(*query.shape[:2], total)
    scores = (head_weights.float()[:, None] @ products)[:, 0].view(count, -1, total)
    mask = part.mask()
    if mask is not None:
        scores = scores.masked_fill_(~mask[:, 0], float("-inf"))
    ordered = scores.sort(dim=-1, descending=True, stable=True)
    kept = min(top_k, total)
    places = ordered.indices[..., :kept].masked_fill(ordered.values[..., :kept] == float("-inf"), total)
    places = places.sort(-1).values
    first = part.first_keys if isinstance(part.first_keys, int) else part.first_keys[:, None, None]
    return torch.where(places < total, places + first, -1).flatten(0, 1)
