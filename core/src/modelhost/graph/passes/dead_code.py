"""Dead code elimination."""

from __future__ import annotations

from ..graph import Graph, Node
from ..tensor import Tensor


def remove_dead_code(graph: Graph) -> Graph:
    """Drop nodes whose outputs nobody uses, and inputs left without a use. Nodes with an effect stay."""
    live: set[Tensor] = set(graph.outputs.values())
    kept: list[Node] = []
    for node in reversed(graph.nodes):
        if node.op.effect or live.intersection(node.outputs):
            kept.append(node)
            live.update(node.tensors)
    result = graph.with_nodes(kept[::-1])
    result.inputs = {name: tensor for name, tensor in graph.inputs.items() if tensor in live}
    return result
