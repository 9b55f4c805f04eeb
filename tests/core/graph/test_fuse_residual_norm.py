"""Which additions and norms are fused."""

from __future__ import annotations

from modelhost.graph import ops
from modelhost.graph.graph import Graph
from modelhost.graph.operation import tracing
from modelhost.graph.passes import fuse_residual_norm
from modelhost.graph.tensor import Parameter, Symbol, Tensor

X, Y = (Tensor("float32", (Symbol("T"), 8), name) for name in "xy")
W, W2 = Parameter((8,), name="w"), Parameter((8,), name="w2")


def _names(graph: Graph) -> list[str]:
    return [node.op.name for node in graph.nodes]


def test_a_sum_that_is_used_elsewhere_stays_available() -> None:
    graph = Graph("forward", {"x": X, "y": Y})
    with tracing(graph):
        total = ops.add(X, Y)
        normed = ops.rms_norm(total, W, eps=1e-5, weight_offset=1.0)
        graph.outputs = {"residual": ops.add(total, normed)}
    fused = fuse_residual_norm(graph)
    assert _names(fused) == ["add_rms_norm", "add"]
    node = fused.nodes[0]
    assert node.operands == (X, Y, W)
    assert node.attributes == {"eps": 1e-5, "weight_offset": 1.0}
    assert node.outputs == (total, normed)
    assert fused.outputs == graph.outputs


def test_only_the_first_norm_of_a_sum() -> None:
    graph = Graph("forward")
    with tracing(graph):
        total = ops.add(X, Y)
        graph.outputs = {"a": ops.rms_norm(total, W, eps=1e-5), "b": ops.rms_norm(total, W2, eps=1e-5)}
    fused = fuse_residual_norm(graph)
    assert _names(fused) == ["add_rms_norm", "rms_norm"]
    assert fused.nodes[0].operands[2] is W and fused.nodes[1].operands == (total, W2)


def test_nodes_between_read_the_norm_as_before() -> None:
    graph = Graph("forward")
    with tracing(graph):
        total = ops.add(X, Y)
        scaled = ops.scale(total, factor=2.0)
        graph.outputs = {"out": ops.add(scaled, ops.rms_norm(total, None, eps=1e-5))}
    assert _names(fuse_residual_norm(graph)) == ["add_rms_norm", "scale", "add"]


def test_not_a_norm_of_something_else() -> None:
    graph = Graph("forward")
    with tracing(graph):
        graph.outputs = {"a": ops.rms_norm(X, W, eps=1e-5), "b": ops.rms_norm(ops.multiply(X, Y), W, eps=1e-5)}
    assert _names(fuse_residual_norm(graph)) == ["rms_norm", "multiply", "rms_norm"]


def test_not_a_norm_whose_weight_is_computed_after_the_sum() -> None:
    graph = Graph("forward")
    with tracing(graph):
        total = ops.add(X, Y)
        graph.outputs = {"out": ops.rms_norm(total, ops.add(W, W2), eps=1e-5)}
    assert _names(fuse_residual_norm(graph)) == ["add", "add", "rms_norm"]
