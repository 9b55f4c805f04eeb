"""What dead code elimination drops and what it keeps."""

from __future__ import annotations

from modelhost.graph import ops
from modelhost.graph.cache import CacheSpec
from modelhost.graph.graph import Graph
from modelhost.graph.operation import tracing
from modelhost.graph.passes import remove_dead_code
from modelhost.graph.tensor import State, Symbol, Tensor

T = Symbol("T")
X = Tensor("float32", (T, 2, 4), "x")
Y = Tensor("float32", (T, 2, 4), "y")
SLOTS = Tensor("int32", (T,), "slots")


def _graph() -> Graph:
    return Graph("forward", {tensor.name: tensor for tensor in (X, Y, SLOTS)})


def test_chains_that_nobody_reads() -> None:
    graph = _graph()
    with tracing(graph):
        ops.scale(ops.add(Y, Y), factor=2.0)
        graph.outputs = {"out": ops.scale(X, factor=3.0)}
    kept = remove_dead_code(graph)
    assert [node.op.name for node in kept.nodes] == ["scale"]
    assert list(kept.inputs) == ["x"]
    assert list(graph.inputs) == ["x", "y", "slots"]


def test_effects_stay_with_what_they_read() -> None:
    graph = _graph()
    with tracing(graph):
        ops.write_cache(ops.scale(Y, factor=2.0), Y, State("cache", CacheSpec(2, 4, 4)), SLOTS)
        graph.outputs = {"out": X}
    kept = remove_dead_code(graph)
    assert [node.op.name for node in kept.nodes] == ["scale", "write_cache"]
    assert list(kept.inputs) == ["x", "y", "slots"]


def test_a_node_with_one_output_in_use_stays_whole() -> None:
    graph = _graph()
    with tracing(graph):
        first, _second = ops.split(X, sizes=(1, 3))
        graph.outputs = {"out": first}
    assert len(remove_dead_code(graph).nodes[0].outputs) == 2
