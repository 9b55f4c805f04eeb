"""The memory plan: no two tensors that are alive at one time overlap."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from modelhost.graph import ops
from modelhost.graph.arena import plan_arena
from modelhost.graph.graph import Graph
from modelhost.graph.operation import tracing
from modelhost.graph.tensor import Parameter, Symbol, Tensor

T = Symbol("T")


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """Random graphs of additions, splits, projections and reshapes of ``[T, n]`` tensors."""
    graph = Graph("random", {"ids": Tensor("int32", (T,), "ids")})
    with tracing(graph):
        made = [ops.embed(graph.inputs["ids"], Parameter((5, draw(st.integers(1, 9)) * 2)))]
        for _ in range(draw(st.integers(0, 14))):
            x = draw(st.sampled_from(made))
            made += _apply(draw, x)
        chosen = draw(st.lists(st.sampled_from(made), max_size=3, unique=True))
    graph.outputs = {str(index): tensor for index, tensor in enumerate(chosen)}
    return graph


def _apply(draw: st.DrawFn, x: Tensor) -> list[Tensor]:
    width = x.shape[-1]
    assert isinstance(width, int)
    match draw(st.sampled_from(["add", "split", "linear", "view"])):
        case "add":
            return [ops.add(x, x)]
        case "split" if width > 1:
            return list(ops.split(x, sizes=(1, width - 1)))
        case "view":
            return [ops.reshape(ops.reshape(x, shape=(T, 1, width)), shape=(T, width))]
        case _:
            return [ops.linear(x, Parameter((draw(st.integers(1, 40)), width)))]


def _owners(graph: Graph) -> dict[Tensor, Tensor]:
    owners: dict[Tensor, Tensor] = {}
    for node in graph.nodes:
        for output in node.outputs:
            source = node.operands[0]
            viewed = node.op.view and isinstance(source, Tensor)
            owners[output] = owners.get(source, source) if viewed else output  # type: ignore[arg-type]
    return owners


def _live(graph: Graph) -> list[set[Tensor]]:
    """The owners of memory that must be intact while each node runs."""
    owners = _owners(graph)
    needed_after = {owners[tensor] for tensor in graph.outputs.values()}
    live: list[set[Tensor]] = []
    for node in reversed(graph.nodes):
        needed_after |= {owners[t] for t in node.tensors if t in owners}
        live.append(needed_after | {owners[t] for t in node.outputs})
        needed_after = needed_after - set(node.outputs)
    return live[::-1]


@settings(deadline=None, max_examples=200)
@given(graphs(), st.integers(0, 33), st.sampled_from([1, 16, 64]))
def test_live_tensors_do_not_overlap(graph: Graph, tokens: int, alignment: int) -> None:
    sizes = {"T": tokens}
    arena = plan_arena(graph, sizes, alignment=alignment)
    for alive in _live(graph):
        spans = sorted((arena.offsets[t], arena.offsets[t] + t.nbytes(sizes)) for t in alive if t.nbytes(sizes))
        for (_, end), (start, _) in pairwise(spans):
            assert end <= start
    for tensor, offset in arena.offsets.items():
        assert offset % alignment == 0 and offset + tensor.nbytes(sizes) <= arena.size


@settings(deadline=None, max_examples=100)
@given(graphs(), st.integers(1, 33))
def test_size_is_between_the_largest_step_and_the_sum(graph: Graph, tokens: int) -> None:
    sizes = {"T": tokens}
    arena = plan_arena(graph, sizes, alignment=1)
    assert arena.size >= max(sum(t.nbytes(sizes) for t in alive) for alive in _live(graph))
    assert arena.size <= sum(t.nbytes(sizes) for t in arena.offsets)


def _chain() -> Graph:
    graph = Graph("chain", {"ids": Tensor("int32", (T,), "ids")})
    with tracing(graph):
        x = ops.embed(graph.inputs["ids"], Parameter((5, 16)))
        for _ in range(10):
            x = ops.scale(x, factor=2.0)
    graph.outputs = {"out": x}
    return graph


def test_a_chain_needs_two_tensors() -> None:
    assert plan_arena(_chain(), {"T": 4}).size == 2 * 4 * 16 * 4


def test_an_output_is_kept_to_the_end() -> None:
    graph = _chain()
    graph.outputs["first"] = graph.nodes[0].outputs[0]
    assert plan_arena(graph, {"T": 4}).size == 3 * 4 * 16 * 4


def test_views_take_no_memory_and_keep_their_source_alive() -> None:
    graph = Graph("views", {"ids": Tensor("int32", (T,), "ids")})
    with tracing(graph):
        x = ops.embed(graph.inputs["ids"], Parameter((5, 16)))
        view = ops.reshape(ops.reshape(x, shape=(T, 4, 4)), shape=(T, 16))
        other = ops.scale(ops.embed(graph.inputs["ids"], Parameter((5, 16))), factor=2.0)
        graph.outputs = {"out": ops.add(view, other)}
    arena = plan_arena(graph, {"T": 4})
    assert view not in arena.offsets and x in arena.offsets
    assert arena.size == 3 * 4 * 16 * 4


def test_half_precision_takes_half() -> None:
    graph = Graph("half", {"ids": Tensor("int32", (T,), "ids")})
    with tracing(graph):
        graph.outputs = {"out": ops.embed(graph.inputs["ids"], Parameter((5, 16)), dtype="bfloat16")}
    assert plan_arena(graph, {"T": 4}).size == 4 * 16 * 2


def test_nothing_for_an_empty_graph() -> None:
    assert plan_arena(Graph("empty"), {}).size == 0
