"""The tokens that temperature, min_p, top_k and top_p leave to choose from, and the choice by one random number.

The order of the filters is vLLM's: temperature, min_p, top_k, top_p, which is a share of what the others left. Tokens
are ordered by falling logit, equal ones by rising id, and every filter keeps the first ones. With a top_k the tokens
that it leaves are listed. Without one the filters are bounds, and tokens are drawn from the row by these.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from modelhost.api.backend import LogitOps

from .sampling_params import SamplingParams

__all__ = ["candidates", "choose"]

Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]
Ids = NDArray[np.int64]


def choose(ops: LogitOps, rows: Sequence[Floats], params: Sequence[SamplingParams], uniforms: Sequence[float]) -> Ids:
    """The next token of every row.

    Args:
        rows: S arrays of logits, float32 ``[vocab]``.
        params: of each row.
        uniforms: numbers in [0, 1); each selects among the row's :func:`candidates`. Greedy rows do not use theirs.

    Returns:
        ids, int64 ``[S]``; -1 where the greatest logit is NaN or infinite.
    """
    tokens, numbers = np.empty(len(rows), np.int64), np.array(uniforms, np.float64)
    for kind, places in _kinds(rows, params).items():
        some, own = [rows[place] for place in places], [params[place] for place in places]
        if kind is None:
            tokens[places] = _Bounds.of(ops, some, own).draw(ops, numbers[places])
        elif kind == 0:
            best = ops.argmax(some)
            tokens[places] = [token if np.isfinite(row[token]) else -1 for row, token in zip(some, best, strict=True)]
        else:
            tokens[places] = _Listed.of(ops, some, own, kind).draw(numbers[places])
    return tokens


def candidates(ops: LogitOps, logits: Floats, params: SamplingParams) -> tuple[Ids, Doubles]:
    """What the next token of one row is chosen from.

    Args:
        logits: float32 ``[vocab]`` with a finite maximum.
        params: not greedy.

    Returns:
        Token ids, int64 ``[C]``, in no order, and probabilities, float64 ``[C]``: all above 0, with the sum 1.
    """
    if 0 < params.top_k < logits.size:
        ids, weights = _Listed.of(ops, [logits], [params], params.top_k).kept()
    else:
        ids, weights = _Bounds.of(ops, [logits], [params]).kept()
    ids, weights = ids[weights > 0], weights[weights > 0]
    return ids, weights / weights.sum(dtype=np.float64)


def _kinds(rows: Sequence[Floats], params: Sequence[SamplingParams]) -> dict[int | None, list[int]]:
    """Numbers of the rows that are computed alike: 0 for greedy ones, else their top_k, ``None`` without one."""
    kinds: dict[int | None, list[int]] = {}
    for place, (row, own) in enumerate(zip(rows, params, strict=True)):
        kind = 0 if own.is_greedy else own.top_k if 0 < own.top_k < row.size else None
        kinds.setdefault(kind, []).append(place)
    return kinds


def _temperatures(params: Sequence[SamplingParams]) -> Doubles:
    return np.array([own.temperature for own in params], np.float64)


def _least(tops: Floats, params: Sequence[SamplingParams]) -> Floats:
    """The logits that min_p asks for where the greatest ones are ``tops``, float32 ``[S]``."""
    shares = np.array([own.min_p for own in params], np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        return (tops + _temperatures(params) * np.log(shares)).astype(np.float32)


@dataclass(frozen=True, slots=True)
class _Listed:
    """The most likely tokens of rows.

    Attributes:
        ids: int64 ``[S, K]``, in order.
        weights: float32 ``[S, K]``, probabilities divided by that of the most likely token; zeros from the first token
            on that a filter takes away. NaN in rows whose greatest logit is NaN or infinite.
    """

    ids: Ids
    weights: Floats

    @classmethod
    def of(cls, ops: LogitOps, rows: Sequence[Floats], params: Sequence[SamplingParams], count: int) -> _Listed:
        ids = ops.top_k(rows, count)
        values = np.array([row[best] for row, best in zip(rows, ids, strict=True)], np.float32)
        tops = values[:, :1]
        with np.errstate(over="ignore", invalid="ignore"):
            weights: Floats = values - tops
            weights /= _temperatures(params).astype(np.float32)[:, None]
        np.exp(weights, out=weights)
        if any(own.min_p > 0 for own in params):
            weights[values < _least(tops[:, 0], params)[:, None]] = 0
        if any(own.top_p < 1 for own in params):
            top_ps = np.array([[own.top_p] for own in params], np.float64)
            sums = weights.cumsum(axis=1, dtype=np.float64)
            weights[:, 1:][sums[:, :-1] >= top_ps * sums[:, -1:]] = 0
        return cls(ids, weights)

    def draw(self, uniforms: Doubles) -> Ids:
        """One token of every row, int64 ``[S]``; -1 where there are no weights."""
        sums = self.weights.cumsum(axis=1, dtype=np.float64)
        totals = sums[:, -1:]
        places = np.minimum((sums <= uniforms[:, None] * totals).sum(axis=1), (sums < totals).sum(axis=1))
        return np.where(np.isfinite(totals[:, 0]), self.ids[np.arange(len(places)), places], -1)

    def kept(self) -> tuple[Ids, Floats]:
        """Tokens of the only row and their weights."""
        return self.ids[0], self.weights[0]


@dataclass(frozen=True, slots=True)
class _Bounds:
    """Which tokens of rows are left: those with a logit above ``least``, or equal to it and an id up to ``last``.

    Attributes:
        rows: S arrays, float32 ``[vocab]``.
        temperatures: float64 ``[S]``.
        least: float32 ``[S]``.
        last: int64 ``[S]``.
    """

    rows: Sequence[Floats]
    temperatures: Doubles
    least: Floats
    last: Ids

    @classmethod
    def of(cls, ops: LogitOps, rows: Sequence[Floats], params: Sequence[SamplingParams]) -> _Bounds:
        least, last = np.full(len(rows), -np.inf, np.float32), np.array([row.size for row in rows], np.int64)
        temperatures = _temperatures(params)
        some = [place for place, own in enumerate(params) if own.min_p > 0]
        if some:
            best = ops.argmax([rows[place] for place in some])
            tops = np.array([rows[place][token] for place, token in zip(some, best, strict=True)], np.float32)
            least[some] = _least(tops, [params[place] for place in some])
        some = [place for place, own in enumerate(params) if own.top_p < 1]
        if some:
            top_ps = np.array([params[place].top_p for place in some], np.float64)
            last[some] = ops.nucleus([rows[place] for place in some], temperatures[some], least[some], top_ps)
            least[some] = [rows[place][last[place]] for place in some]
        return cls(rows, temperatures, least, last)

    def draw(self, ops: LogitOps, uniforms: Doubles) -> Ids:
        """One token of every row, int64 ``[S]``; -1 where the greatest logit is NaN or infinite."""
        return ops.draw(self.rows, self.temperatures, self.least, self.last, uniforms)

    def kept(self) -> tuple[Ids, Floats]:
        """Tokens of the only row, and their weights: probabilities divided by that of the most likely token."""
        row, least = self.rows[0], self.least[0]
        ids = np.flatnonzero(row >= least)
        ids = ids[(row[ids] > least) | (ids <= self.last[0])]
        with np.errstate(over="ignore"):
            weights: Floats = (row[ids] - row.max()) / np.float32(self.temperatures[0])
        return ids, np.exp(weights)
