"""What sampling computes over rows of logits, in NumPy: for executables that do not do it themselves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from modelhost.api.backend import LogitOps

__all__ = ["NUMPY", "NumpyLogitOps", "top_ids"]

_BLOCKS = 512
_DRAWN_BLOCK = 512
_SORTABLE = 1024
_SMALLEST_LOG = -104.0  # exp() of anything lower is 0 in float32

Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]
Ids = NDArray[np.int64]


class NumpyLogitOps:
    """See :class:`modelhost.api.backend.LogitOps`. One row after the other, on one thread."""

    def argmax(self, rows: Sequence[Floats]) -> Ids:
        return np.array([row.argmax() for row in rows], np.int64)

    def top_k(self, rows: Sequence[Floats], count: int) -> Ids:
        ids = [top_ids(row, count) for row in rows]
        return np.array(ids, np.int64).reshape(len(rows), count)

    def nucleus(self, rows: Sequence[Floats], temperatures: Doubles, least: Floats, top_ps: Doubles) -> Ids:
        each = zip(rows, temperatures.tolist(), least, top_ps.tolist(), strict=True)
        return np.array([_last_of_nucleus(*parameters) for parameters in each], np.int64)

    def draw(self, rows: Sequence[Floats], temperatures: Doubles, least: Floats, last: Ids, uniforms: Doubles) -> Ids:
        each = zip(rows, temperatures.tolist(), least, last.tolist(), uniforms.tolist(), strict=True)
        return np.array([_drawn(*parameters) for parameters in each], np.int64)


NUMPY: LogitOps = NumpyLogitOps()


def top_ids(values: Floats, count: int) -> Ids:
    """Indices of the ``count`` largest of ``values`` ``[n]``, in descending order, the lower index first on a tie.

    NaN counts as the largest number.
    """
    if count <= 0:
        return np.empty(0, np.int64)
    bound = _lower_bound(values, min(count, values.size))
    above = np.flatnonzero(values > bound)
    above = above[np.argsort(-values[above], kind="stable")]
    if np.isnan(values.max()):
        above = np.concatenate([np.flatnonzero(np.isnan(values)), above])
    if above.size >= count:
        return above[:count]
    return np.concatenate([above, np.flatnonzero(values == bound)[: count - above.size]])


def _lower_bound(values: Floats, count: int) -> np.float32:
    """A value that at least ``count`` of ``values`` reach.

    The ``count``-th largest of the maxima of disjoint blocks is one: as many blocks have an element that reaches it.
    """
    block = values.size // max(_BLOCKS, 4 * count)
    maxima = np.maximum.reduceat(values, np.arange(0, values.size, block)) if block > 8 else values
    return np.partition(maxima, maxima.size - count)[maxima.size - count]  # type: ignore[no-any-return]


def _weights(values: Floats, top: np.float32, temperature: float) -> Floats:
    with np.errstate(over="ignore"):
        weights: Floats = values - top
        weights /= np.float32(temperature)
    np.exp(weights, out=weights)
    return weights


def _last_of_nucleus(row: Floats, temperature: float, least: np.float32, top_p: float) -> int:
    top = row.max()
    if not np.isfinite(top):
        return -1
    if least == -np.inf:
        return _last_with_share(row, _weights(row, top, temperature), top_p, temperature)
    ids = np.flatnonzero(row >= least)
    values = row[ids]
    return int(ids[_last_with_share(values, _weights(values, top, temperature), top_p, temperature)])


def _last_with_share(values: Floats, weights: Floats, top_p: float, temperature: float) -> int:
    """Index of the last of the most likely tokens that have the share ``top_p`` of the weights.

    Halves the range of logits where it is until it is quick to sort what lies in it.
    """
    wanted = top_p * _mass(weights)
    below = _likely(values, weights, wanted, temperature)
    while below.size > _SORTABLE:
        inside = values[below]
        likelier = inside >= inside.max() / 2 + inside.min() / 2
        upper, lower = below[likelier], below[~likelier]
        if not (upper.size and lower.size):
            break
        mass = _mass(weights[upper])
        if mass >= wanted:
            below = upper
        else:
            below, wanted = lower, wanted - mass
    order = below[np.argsort(-values[below], kind="stable")]
    sums = weights[order].cumsum(dtype=np.float64)
    return int(order[min(int(np.searchsorted(sums, wanted)), order.size - 1)])


def _likely(values: Floats, weights: Floats, wanted: float, temperature: float) -> Ids:
    """Indices of tokens above a cut-off that is just low enough for their mass to be at least ``wanted``."""
    top, log_cutoff = values.max(), 0.0
    while log_cutoff > _SMALLEST_LOG:
        log_cutoff -= 2.0
        indices = np.flatnonzero(values >= top + np.float32(log_cutoff * temperature))
        if _mass(weights[indices]) >= wanted:
            return indices
    return np.flatnonzero(weights > 0)


def _mass(weights: Floats) -> float:
    return float(weights.sum(dtype=np.float64))


def _drawn(row: Floats, temperature: float, least: np.float32, last: int, uniform: float) -> int:
    top = row.max()
    if not np.isfinite(top):
        return -1
    if least == -np.inf:
        return _draw(_weights(row, top, temperature), uniform)
    ids = np.flatnonzero(row >= least)
    values = row[ids]
    kept = (values > least) | (ids <= last)
    return int(ids[kept][_draw(_weights(values[kept], top, temperature), uniform)])


def _draw(weights: Floats, uniform: float) -> int:
    """The index where the running sum of ``weights`` passes the share ``uniform`` of the total: blocks first."""
    starts = np.arange(0, weights.size, _DRAWN_BLOCK)
    sums = np.add.reduceat(weights, starts, dtype=np.float64).cumsum()
    target = uniform * float(sums[-1])
    block = _first_above(sums, target)
    start = int(starts[block])
    inside = weights[start : start + _DRAWN_BLOCK].cumsum(dtype=np.float64)
    return start + _first_above(inside, target - (float(sums[block - 1]) if block else 0.0))


def _first_above(sums: Doubles, target: float) -> int:
    """First index whose sum is above ``target``; where rounding leaves none, the last index that added to the sum."""
    index = int(np.searchsorted(sums, target, side="right"))
    return index if index < sums.size else int(np.searchsorted(sums, sums[-1]))
