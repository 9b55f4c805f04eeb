"""The tokens that temperature, min_p, top_k and top_p leave to choose from, and the choice by one random number."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .logprobs import top_ids
from .sampling_params import SamplingParams

__all__ = ["candidates", "choose"]

_BLOCK = 512
_SORTABLE = 1024
_SMALLEST_LOG = -104.0  # exp() of anything lower is 0 in float32

Floats = NDArray[np.float32]
Ids = NDArray[np.int64]


def choose(logits: Floats, params: SamplingParams, uniform: float) -> int:
    """The token that ``uniform``, in [0, 1), selects among ``candidates(logits, params)``."""
    weights = _weights(logits, params)
    ids = _kept(logits, weights, params)
    return _draw(weights, uniform) if ids is None else int(ids[_draw(weights[ids], uniform)])


def candidates(logits: Floats, params: SamplingParams) -> tuple[Ids, NDArray[np.float64]]:
    """Filter one row of logits in vLLM's order: temperature, min_p, top_k, top_p.

    top_p is a share of what min_p and top_k left. Of equal logits the lower id counts as the more likely.

    Args:
        logits: float32 ``[vocab]`` with a finite maximum.
        params: not greedy.

    Returns:
        Token ids, int64 ``[C]``, in no order, and probabilities, float64 ``[C]``: all above 0, with the sum 1.
    """
    weights = _weights(logits, params)
    ids = _kept(logits, weights, params)
    if ids is None:
        ids = np.arange(logits.size)
    ids = ids[weights[ids] > 0]
    return ids, weights[ids] / weights[ids].sum(dtype=np.float64)


def _weights(logits: Floats, params: SamplingParams) -> Floats:
    """Probabilities divided by that of the most likely token."""
    with np.errstate(over="ignore"):
        weights: Floats = logits - logits.max()
        weights /= np.float32(params.temperature)
    np.exp(weights, out=weights)
    return weights


def _kept(logits: Floats, weights: Floats, params: SamplingParams) -> Ids | None:
    """Ids that pass the filters; None for all."""
    ids: Ids | None = None
    if params.min_p > 0:
        ids = np.flatnonzero(weights >= params.min_p)
    if 0 < params.top_k < logits.size:
        ids = top_ids(logits, params.top_k) if ids is None else ids[top_ids(logits[ids], params.top_k)]
    if params.top_p < 1:
        if ids is None:
            return _nucleus(logits, weights, params)
        ids = ids[_nucleus(logits[ids], weights[ids], params)]
    return ids


def _nucleus(logits: Floats, weights: Floats, params: SamplingParams) -> Ids:
    """Indices of the smallest set of most likely tokens with the share top_p of the mass (Holtzman et al. 2019).

    Halves the range of logits where the set ends until it is quick to sort what lies in it.
    """
    wanted = params.top_p * _mass(weights)
    below = _likely(logits, weights, wanted, params.temperature)
    above: list[Ids] = []
    while below.size > _SORTABLE:
        values = logits[below]
        likelier = values >= values.max() / 2 + values.min() / 2
        upper, lower = below[likelier], below[~likelier]
        if not (upper.size and lower.size):
            break
        mass = _mass(weights[upper])
        if mass >= wanted:
            below = upper
        else:
            above, below, wanted = [*above, upper], lower, wanted - mass
    order = below[np.argsort(-logits[below], kind="stable")]
    sums = weights[order].cumsum(dtype=np.float64)
    return np.concatenate([*above, order[: int(np.searchsorted(sums, wanted)) + 1]])


def _likely(logits: Floats, weights: Floats, wanted: float, temperature: float) -> Ids:
    """Indices of tokens above a cut-off that is just low enough for their mass to be at least ``wanted``."""
    top, log_cutoff = logits.max(), 0.0
    while log_cutoff > _SMALLEST_LOG:
        log_cutoff -= 2.0
        indices = np.flatnonzero(logits >= top + np.float32(log_cutoff * temperature))
        if _mass(weights[indices]) >= wanted:
            return indices
    return np.flatnonzero(weights > 0)


def _mass(weights: Floats) -> float:
    return float(weights.sum(dtype=np.float64))


def _draw(weights: Floats, uniform: float) -> int:
    """The index where the running sum of ``weights`` passes the share ``uniform`` of the total: blocks first."""
    starts = np.arange(0, weights.size, _BLOCK)
    sums = np.add.reduceat(weights, starts, dtype=np.float64).cumsum()
    target = uniform * float(sums[-1])
    block = _first_above(sums, target)
    start = int(starts[block])
    inside = weights[start : start + _BLOCK].cumsum(dtype=np.float64)
    return start + _first_above(inside, target - (float(sums[block - 1]) if block else 0.0))


def _first_above(sums: NDArray[np.float64], target: float) -> int:
    """First index whose sum is above ``target``; where rounding leaves none, the last index that added to the sum."""
    index = int(np.searchsorted(sums, target, side="right"))
    return index if index < sums.size else int(np.searchsorted(sums, sums[-1]))
