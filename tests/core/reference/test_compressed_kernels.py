"""The NumPy kernels of pooled tokens and of residual streams, against formulas in float64."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from modelhost.graph.cache import block_entries, entry_slots
from modelhost.reference import KERNELS
from modelhost.reference.registry import PagedCache

Array = np.ndarray
RNG = np.random.default_rng(4)
CONTEXTS, NEW, BLOCK = (13, 1, 24), (5, 1, 24), 4
"""Tokens of three sequences, how many of them are this step's, and tokens in a block."""
STARTS = np.cumsum([0, *NEW]).astype(np.int32)
LENGTHS = np.array(CONTEXTS, np.int32)


def _random(*shape: int) -> Array:
    return RNG.standard_normal(shape).astype(np.float32)


def _table() -> Array:
    return (1 + RNG.permutation(3 * 24)).astype(np.int32).reshape(3, 24)


def _cache(
    contents: list[Array], values: list[Array] | None, table: Array, window: int | None, stride: int = 1
) -> PagedCache:
    """A cache with everything written: for each sequence ``[tokens, heads, size]``, entries where there is a stride."""
    size = block_entries(BLOCK, stride)
    stores = [np.full((80 * size, *one[0].shape[1:]), 1e3, np.float32) for one in (contents, values or contents)]
    for store, one in zip(stores, (contents, values or contents), strict=True):
        for row, rows in zip(table, one, strict=True):
            last = np.arange(len(rows)) * stride + stride - 1
            store[entry_slots(row, last, BLOCK, stride)] = rows
    return PagedCache(stores[0], stores[0] if values is None else stores[1], size, window, stride)


def _positions() -> Array:
    return np.concatenate([np.arange(c - n, c) for c, n in zip(CONTEXTS, NEW, strict=True)]).astype(np.int32)


def _softmax(x: Array) -> Array:
    weights = np.exp(x.astype(np.float64))
    return weights / weights.sum(0)


@pytest.mark.parametrize("stride", [2, 8])
@pytest.mark.parametrize("parts", [1, 2, 3])
def test_pool_windows(stride: int, parts: int) -> None:
    size, table = 5, _table()
    values, gates = ([_random(c, 1, parts * size) for c in CONTEXTS] for _ in range(2))
    bias = _random(stride, parts * size)
    cache = _cache(values, gates, table, parts * stride)
    got = KERNELS["pool_windows"](_positions(), bias, cache, table, STARTS, LENGTHS, stride=stride)
    wanted = np.zeros((sum(NEW), size))
    for row, (sequence, position) in enumerate(
        (s, p) for s in range(3) for p in range(CONTEXTS[s] - NEW[s], CONTEXTS[s])
    ):
        if position % stride != stride - 1:
            continue
        columns = []
        for token in range(max(0, position + 1 - parts * stride), position + 1):
            part = parts - 1 - (position // stride - token // stride)
            here = slice(part * size, (part + 1) * size)
            gate = gates[sequence][token, 0, here].astype(np.float64) + bias[token % stride, here]
            columns.append((gate, values[sequence][token, 0, here]))
        wanted[row] = (_softmax(np.array([gate for gate, _ in columns])) * [value for _, value in columns]).sum(0)
    assert got.dtype == np.float32
    np.testing.assert_allclose(got, wanted, atol=3e-6)


@pytest.mark.parametrize("stride", [2, 8])
@pytest.mark.parametrize("sinks", [False, True])
@pytest.mark.parametrize("choosing", [False, True])
def test_compressed_attention(stride: int, sinks: bool, choosing: bool) -> None:
    heads, size, window, table, other = 6, 4, 3, _table(), _table()
    recent = [_random(c, 2, size) for c in CONTEXTS]
    pooled = [_random(c // stride, 2, size) for c in CONTEXTS]
    query, sink = _random(sum(NEW), heads, size), _random(heads) if sinks else None
    selected = RNG.integers(-1, 12 // stride + 1, (sum(NEW), 3)).astype(np.int32) if choosing else None
    caches = _cache(recent, None, table, window), _cache(pooled, None, other, None, stride)
    indices = (table, other, STARTS, LENGTHS)
    got = KERNELS["compressed_attention"](query, *caches, *indices, sink, selected, scale=0.7)
    sequences = np.repeat(np.arange(3), NEW)
    for row, (sequence, position) in enumerate(zip(sequences, _positions().tolist(), strict=True)):
        seen = [recent[sequence][token] for token in range(max(0, position - window + 1), position + 1)]
        complete = [entry for entry in range(len(pooled[sequence])) if (entry + 1) * stride <= position + 1]
        allowed = complete if selected is None else [entry for entry in complete if entry in selected[row]]
        seen += [pooled[sequence][entry] for entry in allowed]
        for head in range(heads):
            keys = np.array(seen)[:, head // 3].astype(np.float64)
            scores = [*(0.7 * keys @ query[row, head]), *([] if sink is None else [sink[head]])]
            wanted = _softmax(np.array(scores))[: len(keys)] @ keys
            np.testing.assert_allclose(got[row, head], wanted, atol=3e-6)


@pytest.mark.parametrize("stride", [2, 8])
def test_index_top_k_of_entries(stride: int) -> None:
    table = _table()
    keys = [_random(c // stride, 1, 4) for c in CONTEXTS]
    query, weights = _random(sum(NEW), 5, 4), _random(sum(NEW), 5)
    cache = _cache(keys, None, table, None, stride)
    got = KERNELS["index_top_k"](query, weights, cache, table, STARTS, LENGTHS, top_k=2)
    sequences = np.repeat(np.arange(3), NEW)
    for row, (sequence, position) in enumerate(zip(sequences, _positions().tolist(), strict=True)):
        visible = keys[sequence][: (position + 1) // stride, 0].astype(np.float64)
        scores = weights[row] @ np.maximum(query[row].astype(np.float64) @ visible.T, 0)
        best = sorted(np.argsort(-scores)[:2].tolist())
        assert got[row].tolist() == best + [-1] * (2 - len(best))


def test_route_with_chosen_experts() -> None:
    logits, chosen = _random(7, 9), RNG.integers(0, 9, (7, 3)).astype(np.int32)
    options = {"groups": 1, "top_groups": 1, "group_score": "max"}
    weights, ids = KERNELS["route"](
        logits, None, chosen, top_k=3, scoring="sqrt_softplus", renormalize=True, scale=1.5, **options
    )
    scores = np.take_along_axis(np.sqrt(np.log1p(np.exp(logits.astype(np.float64)))), chosen, 1)
    np.testing.assert_array_equal(ids, chosen)
    np.testing.assert_allclose(weights, 1.5 * scores / scores.sum(1, keepdims=True), rtol=1e-6)


@pytest.mark.parametrize(("streams", "iterations"), [(1, 1), (2, 3), (4, 20)])
def test_stream_weights(streams: int, iterations: int) -> None:
    columns, eps = streams * (2 + streams), 1e-3
    projected, factors, bias = _random(6, columns), _random(3), _random(columns)
    collapse, expand, matrix = KERNELS["stream_weights"](
        projected, factors, bias, streams=streams, iterations=iterations, eps=eps
    )
    x, shift = torch.tensor(projected).double(), torch.tensor(bias).double()
    first, second = (
        x[:, n * streams :][:, :streams] * float(factors[n]) + shift[n * streams :][:streams] for n in (0, 1)
    )
    np.testing.assert_allclose(collapse, (first.sigmoid() + eps)[:, :, None], rtol=1e-6)
    np.testing.assert_allclose(expand, 2 * second.sigmoid()[:, None], rtol=1e-6)
    square = (x[:, 2 * streams :] * float(factors[2]) + shift[2 * streams :]).view(-1, streams, streams)
    wanted = square.softmax(2) + eps
    for turn in range(2 * iterations - 1):
        wanted = wanted / (wanted.sum(1 + turn % 2, keepdim=True) + eps)
    np.testing.assert_allclose(matrix, wanted, rtol=2e-6)
    if iterations > 3:
        np.testing.assert_allclose(matrix.sum(1), 1, atol=2e-3)
        np.testing.assert_allclose(matrix.sum(2), 1, atol=2e-2)


def test_stream_weights_of_a_collapse_only() -> None:
    projected, factor, bias = _random(5, 3), _random(1), _random(3)
    [collapse] = KERNELS["stream_weights"](projected, factor, bias, streams=3, iterations=4, eps=0.25)
    wanted = 1 / (1 + np.exp(-(projected.astype(np.float64) * factor + bias))) + 0.25
    np.testing.assert_allclose(collapse, wanted[:, :, None], rtol=1e-6)


def test_mix_streams() -> None:
    x, weights = _random(4, 3, 5), _random(4, 3, 2)
    got = KERNELS["mix_streams"](x, weights)
    wanted = np.einsum("tjk,tjd->tkd", weights.astype(np.float64), x.astype(np.float64))
    np.testing.assert_allclose(got, wanted, atol=2e-6)


def test_streams_of_a_token_do_not_depend_on_the_others() -> None:
    projected, factors, bias, x = _random(9, 24), _random(3), _random(24), _random(9, 4, 7)
    options = {"streams": 4, "iterations": 5, "eps": 1e-6}
    whole = KERNELS["stream_weights"](projected, factors, bias, **options)
    alone = KERNELS["stream_weights"](projected[3:4], factors, bias, **options)
    for many, one in zip(whole, alone, strict=True):
        np.testing.assert_array_equal(many[3:4], one)
    mixed = KERNELS["mix_streams"](x, whole[2])
    np.testing.assert_array_equal(mixed[3:4], KERNELS["mix_streams"](x[3:4], whole[2][3:4]))


@pytest.mark.parametrize(("low", "high"), [(None, 0.4), (-0.3, None), (-0.3, 0.4)])
def test_clamp(low: float | None, high: float | None) -> None:
    x = _random(5, 7)
    np.testing.assert_array_equal(KERNELS["clamp"](x, low=low, high=high), torch.tensor(x).clamp(low, high).numpy())


def test_rope_table_with_an_offset() -> None:
    positions, frequencies = np.array([0, 5, 9], np.int32), (1.0, 0.3)
    got = KERNELS["rope_table"](positions, frequencies=frequencies, scale=1.5, offset=-4)
    angles = np.array([-4.0, 1.0, 5.0])[:, None] * frequencies
    np.testing.assert_allclose(got, 1.5 * np.concatenate([np.cos(angles), np.sin(angles)], 1), atol=1e-6)
