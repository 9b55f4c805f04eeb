"""What the ops of pooled tokens and of residual streams say about operands that do not fit them, and strided caches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from modelhost.api import GraphError
from modelhost.graph import ops
from modelhost.graph.cache import CacheSpec, block_entries, entry_slots
from modelhost.graph.graph import Graph
from modelhost.graph.operation import tracing
from modelhost.graph.tensor import Parameter, State, Symbol, Tensor

T, B = Symbol("T"), Symbol("B")
IDS = Tensor("int32", (T,), "ids")
INDICES = (Tensor("int32", (B, Symbol("n"))), Tensor("int32", (B + 1,)), Tensor("int32", (B,)))
QUERY = Tensor("float32", (T, 6, 4), "q")
PENDING = State("pending", CacheSpec(1, 10, 10, 8))
RECENT = State("recent", CacheSpec(1, 4, 4, 3, latent=True))
ENTRIES = State("entries", CacheSpec(1, 4, 4, latent=True, stride=4))
STREAMS = Tensor("float32", (T, 3, 5), "streams")
PROJECTED = Tensor("float32", (T, 15), "projected")


def _attend(compressed: State, **operands: Tensor) -> Tensor:
    tables = (INDICES[0], *INDICES)
    return ops.compressed_attention(QUERY, RECENT, compressed, *tables, **operands, scale=1.0)


ERRORS: dict[str, tuple[Callable[[], Any], str]] = {
    "window that is no multiple": (
        lambda: ops.pool_windows(IDS, Parameter((3, 10)), PENDING, *INDICES, stride=3),
        "pool_windows: the window must be a multiple of 3; ",
    ),
    "bias of other shape": (
        lambda: ops.pool_windows(IDS, Parameter((4, 5)), PENDING, *INDICES, stride=4),
        "pool_windows: position_bias must be [4, 10]; ",
    ),
    "pooling of latents": (
        lambda: ops.pool_windows(IDS, Parameter((3, 4)), RECENT, *INDICES, stride=3),
        "pool_windows: cache must hold keys and values of one head; ",
    ),
    "no stride": (lambda: _attend(RECENT), "compressed_attention: compressed must have a stride, cache none; "),
    "other sizes": (
        lambda: _attend(State("wide", CacheSpec(1, 5, 5, latent=True, stride=4))),
        "compressed_attention: both caches must have the same heads and sizes; ",
    ),
    "sinks of another number": (
        lambda: _attend(ENTRIES, sinks=Parameter((5,))),
        "compressed_attention: sinks must have one value for each head; ",
    ),
    "selection of floats": (
        lambda: _attend(ENTRIES, selected=Tensor("float32", (T, 2))),
        "compressed_attention: selected must be int32 [tokens, entries]; ",
    ),
    "columns of another number": (
        lambda: ops.stream_weights(PROJECTED, Parameter((3,)), Parameter((15,)), streams=4, iterations=1, eps=0.1),
        "stream_weights: projected must have 4 or 24 columns, got 15; ",
    ),
    "factors of another number": (
        lambda: ops.stream_weights(PROJECTED, Parameter((1,)), Parameter((15,)), streams=3, iterations=1, eps=0.1),
        "stream_weights: factors must have 3 values; ",
    ),
    "weights of other streams": (
        lambda: ops.mix_streams(STREAMS, Tensor("float32", (T, 2, 3))),
        "mix_streams: weights must have one row for each stream of x; ",
    ),
    "no bound": (lambda: ops.clamp(STREAMS), "clamp: clamp needs a bound; "),
    "crossed bounds": (lambda: ops.clamp(STREAMS, low=2.0, high=1.0), "clamp: low 2.0 is above high 1.0; "),
    "chosen experts of another number": (
        lambda: ops.route(PROJECTED, None, Tensor("int32", (T, 3)), top_k=2),
        "route: chosen must be int32 [T, 2]; ",
    ),
    "chosen experts and a bias": (
        lambda: ops.route(PROJECTED, Parameter((15,)), Tensor("int32", (T, 2)), top_k=2),
        "route: with chosen experts, there is neither bias nor group; ",
    ),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors(name: str) -> None:
    build, text = ERRORS[name]
    with tracing(Graph("test")), pytest.raises(GraphError) as raised:
        build()
    assert str(raised.value).startswith(text)


def test_results() -> None:
    with tracing(Graph("test")):
        assert ops.pool_windows(IDS, Parameter((4, 10)), PENDING, *INDICES, stride=4).shape == (T, 5)
        assert _attend(ENTRIES).shape == (T, 6, 4)
        weights = ops.stream_weights(PROJECTED, Parameter((3,)), Parameter((15,)), streams=3, iterations=1, eps=0.1)
        assert [one.shape for one in weights] == [(T, 3, 1), (T, 1, 3), (T, 3, 3)]
        assert ops.mix_streams(STREAMS, weights[0]).shape == (T, 1, 5)


def test_a_cache_has_no_window_and_stride_at_once() -> None:
    with pytest.raises(GraphError, match="not both a stride and a window"):
        CacheSpec(1, 4, 4, window=8, stride=2)


def test_groups_of_caches_with_a_stride() -> None:
    assert ENTRIES.spec.group == "strided_4"
    assert [block_entries(16, stride) for stride in (1, 4, 16, 128)] == [16, 4, 1, 1]


@pytest.mark.parametrize(
    ("stride", "wanted"),
    [(1, [40, 41, 42, 43, 28, 29, 30, 31, 36]), (2, [0, 20, 0, 21, 0, 14, 0, 15, 0]), (8, [0] * 7 + [10, 0])],
)
def test_slots_of_entries(stride: int, wanted: list[int]) -> None:
    table = np.array([10, 7, 9], np.int32)
    assert entry_slots(table, np.arange(9, dtype=np.int32), 4, stride).tolist() == wanted
