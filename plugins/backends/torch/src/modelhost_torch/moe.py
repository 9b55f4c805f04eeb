"""Kernels of mixtures of experts."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F

from .activations import ACTIVATIONS

Tensor = torch.Tensor

_SCORINGS: dict[str, Callable[[Tensor], Tensor]] = {
    "softmax": lambda x: x.softmax(-1),
    "sigmoid": torch.sigmoid,
    "sqrt_softplus": lambda x: F.softplus(x).sqrt(),
}


def route(
    logits: Tensor,
    bias: Tensor | None,
    chosen: Tensor | None,
    *,
    top_k: int,
    scoring: str,
    groups: int,
    top_groups: int,
    group_score: str,
    renormalize: bool,
    scale: float,
) -> tuple[Tensor, Tensor]:
    """Weights float32 and expert numbers, both ``[T, top_k]``."""
    scores = _SCORINGS[scoring](logits.float())
    if chosen is None:
        ranks = scores if bias is None else scores + bias
        if groups > 1:
            ranks = _only_best_groups(ranks, groups, top_groups, 1 if group_score == "max" else 2)
        chosen = _best(ranks, top_k)
    weights = scores.gather(-1, chosen)
    if renormalize:
        weights = weights / (weights.sum(-1, keepdim=True) + 1e-20)
    return weights * scale, chosen


def _best(values: Tensor, count: int) -> Tensor:
    """Indices of the largest along the last dimension; on a tie the lower index. ``torch.topk`` does not promise it."""
    return values.sort(dim=-1, descending=True, stable=True).indices[..., :count]


def _only_best_groups(ranks: Tensor, groups: int, top_groups: int, best: int) -> Tensor:
    grouped = ranks.view(len(ranks), groups, ranks.shape[1] // groups)
    totals = grouped.topk(min(best, grouped.shape[-1]), -1).values.sum(-1)
    keep = torch.zeros_like(totals, dtype=torch.bool).scatter_(-1, _best(totals, top_groups), True)
    return grouped.masked_fill(~keep[..., None], float("-inf")).view(ranks.shape)


def experts(
    x: Tensor,
    weights: Tensor,
    expert_ids: Tensor,
    gate: Tensor,
    up: Tensor,
    down: Tensor,
    *,
    kind: str,
    gate_limit: float | None,
    up_limit: float | None,
) -> Tensor:
    """``[T, H]``: the tokens of each expert go through it together; their results are added in float32."""
    flat = expert_ids.flatten()
    order = flat.argsort(stable=True)
    rows = order // expert_ids.shape[1]
    inputs, outputs = x[rows], torch.empty(len(rows), x.shape[1], dtype=x.dtype, device=x.device)
    start = 0
    for expert, count in enumerate(flat.bincount(minlength=len(gate)).tolist()):
        if not count:
            continue
        now = slice(start, start + count)
        gates, ups = F.linear(inputs[now], gate[expert]), F.linear(inputs[now], up[expert])
        if gate_limit is not None:
            gates = gates.clamp_(max=gate_limit)
        if up_limit is not None:
            ups = ups.clamp_(-up_limit, up_limit)
        outputs[now] = F.linear(ACTIVATIONS[kind](gates).mul_(ups), down[expert])
        start += count
    scaled = outputs.float().mul_(weights.flatten()[order][:, None])
    return torch.zeros_like(x, dtype=torch.float32).index_add_(0, rows, scaled).to(x.dtype)
