"""NumPy kernels of mixtures of experts, one token at a time."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from modelhost.graph import ops

from .kernels import ACTIVATIONS
from .registry import Float, Int, kernel


def _softmax(x: Float) -> Float:
    weights = np.exp(x - x.max(axis=-1, keepdims=True))
    result: Float = weights / weights.sum(axis=-1, keepdims=True)
    return result


SCORINGS: dict[str, Callable[[Float], Float]] = {
    "softmax": _softmax,
    "sigmoid": ACTIVATIONS["sigmoid"],
    "sqrt_softplus": lambda x: np.sqrt(ACTIVATIONS["softplus"](x)),
}


@kernel(ops.route)
def route(
    logits: Float,
    bias: Float | None,
    chosen: Int | None,
    *,
    top_k: int,
    scoring: str,
    groups: int,
    top_groups: int,
    group_score: str,
    renormalize: bool,
    scale: float,
) -> tuple[Float, Int]:
    scores = SCORINGS[scoring](np.ascontiguousarray(logits))
    if chosen is None:
        ranks = scores if bias is None else scores + bias
        if groups > 1:
            ranks = _only_best_groups(ranks, groups, top_groups, 1 if group_score == "max" else 2)
        chosen = np.argsort(-ranks, axis=-1, kind="stable")[:, :top_k].astype(np.int32)
    weights = np.take_along_axis(scores, chosen, axis=-1)
    if renormalize:
        weights = weights / (weights.sum(axis=-1, keepdims=True) + np.float32(1e-20))
    return weights * np.float32(scale), chosen


def _only_best_groups(ranks: Float, groups: int, top_groups: int, best: int) -> Float:
    """Minus infinity for the experts outside of the best groups, which are those with the largest ``best`` ranks."""
    grouped = ranks.reshape(len(ranks), groups, ranks.shape[1] // groups)
    totals = np.sort(grouped, axis=-1)[..., -best:].sum(axis=-1)
    order = np.argsort(-totals, axis=-1, kind="stable")[:, :top_groups]
    keep = np.zeros(totals.shape, bool)
    np.put_along_axis(keep, order, True, axis=-1)
    result: Float = np.where(keep[..., None], grouped, np.float32(-np.inf)).reshape(ranks.shape)
    return result


@kernel(ops.experts)
def experts(
    x: Float,
    weights: Float,
    expert_ids: Int,
    gate: Float,
    up: Float,
    down: Float,
    *,
    kind: str,
    gate_limit: float | None,
    up_limit: float | None,
) -> Float:
    result = np.zeros_like(x)
    for row, factors, numbers, out in zip(x, weights, expert_ids.tolist(), result, strict=True):
        for factor, expert in zip(factors, numbers, strict=True):
            gates, ups = np.dot(gate[expert], row), np.dot(up[expert], row)
            if gate_limit is not None:
                gates = np.minimum(gates, np.float32(gate_limit))
            if up_limit is not None:
                ups = np.clip(ups, np.float32(-up_limit), np.float32(up_limit))
            out += factor * np.dot(down[expert], ACTIVATIONS[kind](gates) * ups)
    return result
