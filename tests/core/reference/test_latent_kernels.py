"""The NumPy kernels of latent and sparse attention against dense formulas in float64."""

from __future__ import annotations

import numpy as np
import pytest

from modelhost.reference import KERNELS
from modelhost.reference.registry import PagedCache

Array = np.ndarray
RNG = np.random.default_rng(7)
BLOCK, HEADS, LATENT, ROTATED, KEY, VALUE = 4, 3, 6, 2, 5, 4
CONTEXTS, QUERIES = np.array([9, 1, 14], np.int32), (9, 1, 3)
STARTS = np.cumsum([0, *QUERIES]).astype(np.int32)
TABLE = 1 + RNG.permutation(12).reshape(3, 4).astype(np.int32)
INDICES = (TABLE, STARTS, CONTEXTS)


def _random(*shape: int) -> Array:
    return RNG.standard_normal(shape).astype(np.float32)


def _cache(size: int, value: int, window: int | None = None) -> tuple[PagedCache, list[Array]]:
    """A latent cache, and the keys of each sequence that were written to it."""
    keys = np.zeros((13 * BLOCK, 1, size), np.float32)
    cache, written = PagedCache(keys, keys[..., :value], BLOCK, window), []
    for sequence, context in enumerate(CONTEXTS.tolist()):
        own = _random(context, 1, size)
        slots = np.array([TABLE[sequence, p // BLOCK] * BLOCK + p % BLOCK for p in range(context)], np.int32)
        assert KERNELS["write_cache"](own, None, cache, slots) == ()
        written.append(own[:, 0].astype(np.float64))
    return cache, written


def _rows() -> list[tuple[int, int, int]]:
    """Row, sequence and position of every query."""
    return [
        (int(STARTS[s]) + n, s, int(CONTEXTS[s]) - count + n) for s, count in enumerate(QUERIES) for n in range(count)
    ]


def _softmax(scores: Array) -> Array:
    weights = np.exp(scores - scores.max())
    return weights / weights.sum()


def _random_selection(width: int) -> Array:
    """For every token some positions in no order: repeated, of the future, none, and its own."""
    selected = RNG.integers(-1, 16, (STARTS[-1], width)).astype(np.int32)
    for row, _, position in _rows():
        selected[row, RNG.integers(width)] = position
    return selected


def _visible(selected: Array | None, row: int, position: int) -> list[int]:
    return [p for p in range(position + 1) if selected is None or p in selected[row]]


@pytest.mark.parametrize("selecting", [False, True])
def test_latent_attention_is_attention_over_projected_latents(selecting: bool) -> None:
    cache, written = _cache(LATENT + ROTATED, LATENT)
    query, up = _random(int(STARTS[-1]), HEADS, KEY + ROTATED), _random(HEADS * (KEY + VALUE), LATENT)
    selected = _random_selection(6) if selecting else None
    got = KERNELS["latent_attention"](query, up, cache, *INDICES, selected, scale=0.4, value_dim=VALUE)
    assert got.dtype == np.float32 and got.shape == (STARTS[-1], HEADS, VALUE)
    for row, sequence, position in _rows():
        places = _visible(selected, row, position)
        latents, rotated = np.split(written[sequence][places], [LATENT], axis=1)
        for head in range(HEADS):
            made = latents @ up.astype(np.float64).reshape(HEADS, KEY + VALUE, LATENT)[head].T
            keys = np.concatenate([made[:, :KEY], rotated], axis=1)
            wanted = _softmax(0.4 * keys @ query[row, head]) @ made[:, KEY:]
            np.testing.assert_allclose(got[row, head], wanted, rtol=0, atol=3e-6)


@pytest.mark.parametrize("rows", [(0, 3), (2, 7)])
def test_head_linear(rows: tuple[int, int]) -> None:
    count = rows[1] - rows[0]
    x, weight = _random(4, HEADS, 5), _random(HEADS * 7, 5)
    used = weight.astype(np.float64).reshape(HEADS, 7, 5)[:, slice(*rows)]
    got = KERNELS["head_linear"](x, weight, rows=rows, transpose=False)
    np.testing.assert_allclose(got, np.einsum("thc,hnc->thn", x, used), rtol=0, atol=2e-6)
    y = _random(4, HEADS, count)
    back = KERNELS["head_linear"](y, weight, rows=rows, transpose=True)
    np.testing.assert_allclose(back, np.einsum("thn,hnc->thc", y, used), rtol=0, atol=2e-6)


@pytest.mark.parametrize("window", [None, 4])
@pytest.mark.parametrize("top_k", [1, 3, 50])
def test_index_top_k(top_k: int, window: int | None) -> None:
    cache, written = _cache(5, 5, window)
    query, weights = _random(int(STARTS[-1]), 7, 5), _random(int(STARTS[-1]), 7)
    got = KERNELS["index_top_k"](query, weights, cache, *INDICES, top_k=top_k)
    assert got.dtype == np.int32 and got.shape == (STARTS[-1], top_k)
    for row, sequence, position in _rows():
        low = 0 if window is None else max(0, position - window + 1)
        products = np.maximum(written[sequence][low : position + 1] @ query[row].T.astype(np.float64), 0)
        best = sorted((low + np.argsort(-(products @ weights[row]))[:top_k]).tolist())
        assert got[row].tolist() == best + [-1] * (top_k - len(best))


def test_index_top_k_takes_the_earlier_of_equals() -> None:
    cache, _ = _cache(5, 5)
    query = np.zeros((STARTS[-1], 2, 5), np.float32)
    got = KERNELS["index_top_k"](query, np.ones((STARTS[-1], 2), np.float32), cache, *INDICES, top_k=3)
    assert got[-1].tolist() == [0, 1, 2] and got[0].tolist() == [0, -1, -1]


@pytest.mark.parametrize("sinking", [False, True])
@pytest.mark.parametrize("selecting", [False, True])
@pytest.mark.parametrize("window", [None, 4])
def test_attention_with_sinks_and_selection(sinking: bool, selecting: bool, window: int | None) -> None:
    cache, written = _cache(LATENT + ROTATED, LATENT, window)
    query = _random(int(STARTS[-1]), HEADS, LATENT + ROTATED)
    sinks = _random(HEADS) if sinking else None
    selected = _random_selection(6) if selecting else None
    got = KERNELS["attention"](query, cache, *INDICES, sinks, selected, scale=0.4, soft_cap=None)
    for row, sequence, position in _rows():
        low = 0 if window is None else max(0, position - window + 1)
        keys = written[sequence][[p for p in _visible(selected, row, position) if p >= low]]
        for head in range(HEADS):
            scores = 0.4 * keys @ query[row, head]
            scores = scores if sinks is None else np.append(scores, sinks[head])
            wanted = _softmax(scores)[: len(keys)] @ keys[:, :LATENT]
            np.testing.assert_allclose(got[row, head], wanted, rtol=0, atol=3e-6)
