"""Decomposing what a backend has no kernel for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from modelhost.api import UnsupportedError
from modelhost.graph import ops
from modelhost.graph.cache import CacheSpec
from modelhost.graph.graph import Graph
from modelhost.graph.operation import Operation, operation, tracing
from modelhost.graph.passes import lower
from modelhost.graph.tensor import Parameter, State, Symbol, Tensor

T = Symbol("T")
X, Y = (Tensor("float32", (T, 8), name) for name in "xy")
W = Parameter((8,), name="w")


def _lowered(graph: Graph, *missing: Operation[..., Any]) -> Graph:
    return lower(graph, native=lambda op: op not in missing, backend="toy")


def _names(graph: Graph) -> list[str]:
    return [node.op.name for node in graph.nodes]


def _is_ordered(graph: Graph) -> bool:
    """Every tensor that a node or the graph reads was made before."""
    ready: set[Tensor] = {*graph.inputs.values(), *graph.parameters.values()}
    for node in graph.nodes:
        if not ready.issuperset(node.tensors):
            return False
        ready.update(node.outputs)
    return ready.issuperset(graph.outputs.values())


def test_native_ops_stay() -> None:
    graph = Graph("forward", {"x": X, "y": Y})
    with tracing(graph):
        graph.outputs = {"out": ops.gated_activation(X, Y, kind="silu")}
    lowered = _lowered(graph)
    assert str(lowered) == str(graph) and lowered.outputs == graph.outputs


def test_an_op_is_decomposed_and_its_readers_follow() -> None:
    graph = Graph("forward", {"x": X, "y": Y})
    with tracing(graph):
        total, normed = ops.add_rms_norm(X, Y, W, eps=1e-5, weight_offset=1.0)
        graph.outputs = {"total": total, "out": ops.multiply(total, normed)}
    lowered = _lowered(graph, ops.add_rms_norm)
    assert _names(lowered) == ["add", "rms_norm", "multiply"]
    assert lowered.nodes[1].attributes == {"eps": 1e-5, "weight_offset": 1.0}
    assert _is_ordered(lowered)
    assert lowered.outputs["total"] is lowered.nodes[0].outputs[0]


@pytest.fixture
def decomposable_add() -> Iterator[None]:
    """``add`` with a decomposition, so that the one of ``add_rms_norm`` holds an op to decompose in turn."""

    @ops.add.decomposition
    def _add(x: Tensor, y: Tensor) -> Tensor:
        return ops.scale(ops.multiply(x, y), factor=1.0)

    yield
    ops.add.decompose = None


@pytest.mark.usefixtures("decomposable_add")
def test_decompositions_are_decomposed_in_turn() -> None:
    graph = Graph("forward", {"x": X, "y": Y})
    with tracing(graph):
        total, normed = ops.add_rms_norm(X, Y, W, eps=1e-5)
        graph.outputs = {"total": total, "out": ops.add(total, normed)}
    lowered = _lowered(graph, ops.add_rms_norm, ops.add)
    assert _names(lowered) == ["multiply", "scale", "rms_norm", "multiply", "scale"]
    assert _is_ordered(lowered)


@operation()
def passed_on(x: Tensor) -> Tensor:
    """The operand itself."""
    return x.like()


@passed_on.decomposition
def _passed_on(x: Tensor) -> Tensor:
    return x


def test_a_decomposition_into_nothing() -> None:
    graph = Graph("forward", {"x": X})
    with tracing(graph):
        graph.outputs = {"out": ops.scale(passed_on(passed_on(X)), factor=2.0), "same": passed_on(X)}
    lowered = _lowered(graph, passed_on)
    assert _names(lowered) == ["scale"]
    assert lowered.nodes[0].operands == (X,) and lowered.outputs["same"] is X


def test_all_missing_ops_are_named() -> None:
    cache, slots = State("cache", CacheSpec(2, 4, 4)), Tensor("int32", (T,), "slots")
    graph = Graph("forward", {"x": X, "y": Y})
    with tracing(graph):
        heads = ops.reshape(X, shape=(T, 2, 4))
        ops.write_cache(heads, heads, cache, slots)
        graph.outputs = {"out": ops.gated_activation(X, ops.scale(Y, factor=2.0), kind="silu")}
    with pytest.raises(UnsupportedError) as error:
        _lowered(graph, ops.write_cache, ops.gated_activation, ops.activation, ops.scale)
    assert str(error.value) == (
        "backend 'toy' cannot run graph 'forward': it has no kernel for activation, scale, write_cache, "
        "and these ops have no decomposition; choose another backend with --backend"
    )
