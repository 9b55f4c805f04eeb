"""Lowering: keep the ops that a backend computes, decompose the others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from modelhost.api.errors import UnsupportedError

from ..graph import Graph, Node
from ..operation import Operation, tracing
from ..tensor import Tensor


def lower(graph: Graph, *, native: Callable[[Operation[..., Any]], bool], backend: str) -> Graph:
    """A graph of native ops only.

    Raises:
        UnsupportedError: names the ops that are neither native nor decomposable.
    """
    replaced: dict[Tensor, Tensor] = {}
    missing: set[str] = set()

    def substitute(tensor: Tensor) -> Tensor:
        return replaced.get(tensor, tensor)

    def expand(node: Node) -> list[Node]:
        node = node.replace(substitute)
        if native(node.op):
            return [node]
        if node.op.decompose is None:
            missing.add(node.op.name)
            return []
        with tracing(Graph("decomposition")) as fragment:
            result = node.op.decompose(*node.operands, **node.attributes)
        outputs = (result,) if isinstance(result, Tensor) else tuple(result or ())
        expanded = [inner for part in fragment.nodes for inner in expand(part)]
        replaced.update(zip(node.outputs, map(substitute, outputs), strict=True))
        return expanded

    nodes = [inner for node in graph.nodes for inner in expand(node)]
    if missing:
        raise UnsupportedError(
            f"backend {backend!r} cannot run graph {graph.name!r}: it has no kernel for {', '.join(sorted(missing))}, "
            "and these ops have no decomposition; choose another backend with --backend"
        )
    return graph.with_nodes(nodes, substitute)
