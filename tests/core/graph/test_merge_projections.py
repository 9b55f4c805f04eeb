"""Which projections are merged, and into what."""

from __future__ import annotations

from collections.abc import Callable

from modelhost.graph import ops
from modelhost.graph.graph import Graph
from modelhost.graph.operation import tracing
from modelhost.graph.passes import merge_projections
from modelhost.graph.tensor import Parameter, Symbol, Tensor

T = Symbol("T")


def _traced(build: Callable[[Tensor], dict[str, Tensor]]) -> Graph:
    x = Tensor("float32", (T, 8), "x")
    graph = Graph("forward", {"x": x})
    with tracing(graph):
        graph.outputs = build(x)
    return graph


def _weight(name: str, rows: int = 4, **options: object) -> Parameter:
    return Parameter((rows, 8), name=name, **options)  # type: ignore[arg-type]


def _merged(graph: Graph, **encodings: str) -> Graph:
    return merge_projections(graph, lambda parameter: encodings.get(parameter.name, "f32"))


def _names(graph: Graph) -> list[str]:
    return [node.op.name for node in graph.nodes]


def test_projections_of_one_tensor_become_one() -> None:
    q, k, v = _weight("q", 6), _weight("k", 3), _weight("v", 2)
    graph = _traced(lambda x: {"q": ops.linear(x, q), "k": ops.linear(x, k), "v": ops.linear(x, v)})
    merged = _merged(graph)
    linear, split = merged.nodes
    weight = linear.operands[1]
    assert isinstance(weight, Parameter)
    assert (weight.name, weight.shape, weight.parts) == ("q+k+v", (11, 8), (q, k, v))
    assert split.op is ops.split and split.attributes == {"sizes": (6, 3, 2)}
    assert merged.outputs == graph.outputs and split.outputs == tuple(graph.outputs.values())


def test_biases_are_stacked_with_the_weights() -> None:
    biases = [Parameter((4,), name=f"bias{i}") for i in range(2)]
    graph = _traced(lambda x: {str(i): ops.linear(x, _weight(f"w{i}"), bias) for i, bias in enumerate(biases)})
    bias = _merged(graph).nodes[0].operands[2]
    assert isinstance(bias, Parameter)
    assert (bias.name, bias.shape, bias.parts) == ("bias0+bias1", (8,), tuple(biases))


def test_only_equal_encodings() -> None:
    graph = _traced(lambda x: {name: ops.linear(x, _weight(name)) for name in "abc"})
    merged = _merged(graph, a="q4_k", b="q6_k", c="q4_k")
    assert _names(merged) == ["linear", "split", "linear"]
    assert [node.operands[1].name for node in merged.nodes if node.op is ops.linear] == ["a+c", "b"]


def test_only_with_or_only_without_a_bias() -> None:
    graph = _traced(
        lambda x: {"a": ops.linear(x, _weight("a"), Parameter((4,), name="bias")), "b": ops.linear(x, _weight("b"))}
    )
    assert _names(_merged(graph)) == ["linear", "linear"]


def test_not_with_biases_in_blocks() -> None:
    biases = [Parameter((4,), name=f"bias{i}") for i in range(2)]
    graph = _traced(lambda x: {str(i): ops.linear(x, _weight(f"w{i}"), bias) for i, bias in enumerate(biases)})
    assert _names(_merged(graph, bias0="q8_0", bias1="q8_0")) == ["linear", "linear"]


def test_not_a_weight_that_is_used_elsewhere() -> None:
    shared = _weight("shared")
    graph = _traced(
        lambda x: {"a": ops.linear(x, shared), "b": ops.linear(x, _weight("b")), "c": ops.linear(x, shared)}
    )
    assert _names(_merged(graph)) == ["linear"] * 3


def test_not_projections_of_different_tensors() -> None:
    graph = _traced(lambda x: {"a": ops.linear(x, _weight("a")), "b": ops.linear(ops.add(x, x), _weight("b"))})
    assert _names(_merged(graph)) == ["linear", "add", "linear"]


def test_only_equal_sharding_and_dtype() -> None:
    column, row = _weight("a", sharding="column"), _weight("b", sharding="row")
    graph = _traced(lambda x: {"a": ops.linear(x, column), "b": ops.linear(x, row)})
    assert _names(_merged(graph)) == ["linear", "linear"]
    half = _weight("c", dtype="bfloat16")
    graph = _traced(lambda x: {"b": ops.linear(x, row), "c": ops.linear(x, half)})
    assert _names(_merged(graph)) == ["linear", "linear"]


def test_sharding_is_kept() -> None:
    graph = _traced(lambda x: {n: ops.linear(x, _weight(n, sharding="column")) for n in "ab"})
    weight = _merged(graph).nodes[0].operands[1]
    assert isinstance(weight, Parameter) and weight.sharding == "column"


def test_the_results_are_ready_for_their_first_reader() -> None:
    def build(x: Tensor) -> dict[str, Tensor]:
        early = ops.scale(ops.linear(x, _weight("a")), factor=2.0)
        return {"early": early, "late": ops.add(early, ops.linear(x, _weight("b")))}

    merged = _merged(_traced(build))
    assert _names(merged) == ["linear", "split", "scale", "add"]
    ready = set(merged.inputs.values()) | set(merged.parameters.values())
    for node in merged.nodes:
        assert ready.issuperset(node.tensors)
        ready.update(node.outputs)


def test_the_graph_given_is_not_changed() -> None:
    graph = _traced(lambda x: {name: ops.linear(x, _weight(name)) for name in "ab"})
    _merged(graph)
    assert _names(graph) == ["linear", "linear"]
