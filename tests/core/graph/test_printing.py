"""Graphs as text."""

from __future__ import annotations

from modelhost.graph import ops
from modelhost.graph.cache import CacheSpec
from modelhost.graph.graph import Graph
from modelhost.graph.operation import tracing
from modelhost.graph.tensor import Parameter, State, Symbol, Tensor

T = Symbol("T")
SPEC = CacheSpec(2, 4, 4, window=16)


def _graph() -> Graph:
    ids, slots = Tensor("int32", (T,), "ids"), Tensor("int32", (T,), "slots")
    graph = Graph("forward", {"ids": ids, "slots": slots})
    with tracing(graph):
        x = ops.embed(ids, Parameter((64, 8), name="table"))
        heads = ops.reshape(x, shape=(T, 2, 4))
        ops.write_cache(heads, heads, State("cache", SPEC), slots)
        left, right = ops.split(x, sizes=(4, 4))
        graph.outputs = {"out": ops.rms_norm(ops.add(left, right), None, eps=1e-6), "rows": x}
    return graph


def test_a_graph() -> None:
    assert str(_graph()) == "\n".join(
        [
            "graph forward",
            "  input ids: int32[T]",
            "  input slots: int32[T]",
            f"  state cache: {SPEC}",
            "  %0: float32[T, 8] = embed(ids, table[64, 8], dtype='float32')",
            "  %1: float32[T, 2, 4] = reshape(%0, shape=(T, 2, 4))",
            "  () = write_cache(%1, %1, cache, slots)",
            "  %2: float32[T, 4], %3: float32[T, 4] = split(%0, sizes=(4, 4))",
            "  %4: float32[T, 4] = add(%2, %3)",
            "  %5: float32[T, 4] = rms_norm(%4, -, eps=1e-06, weight_offset=0.0)",
            "  return out=%5, rows=%0",
        ]
    )


def test_a_node_alone() -> None:
    assert str(_graph().nodes[4]) == "%2: float32[T, 4] = add(%0, %1)"


def test_long_attributes_are_cut() -> None:
    graph = Graph("forward")
    with tracing(graph):
        ops.rope_table(Tensor("int32", (T,), "positions"), frequencies=tuple(0.5**i for i in range(64)))
    assert str(graph.nodes[0]) == (
        "%0: float32[T, 128] = rope_table(positions, frequencies=(1.0, 0.5, 0.25, 0.125, 0.0625, 0.031..., scale=1.0, "
        "offset=0)"
    )
