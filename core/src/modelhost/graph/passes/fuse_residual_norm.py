"""Fuse a residual addition with the normalisation that follows it."""

from __future__ import annotations

from .. import ops
from ..graph import Graph, Node
from ..tensor import Tensor


def fuse_residual_norm(graph: Graph) -> Graph:
    """Replace ``s = add(x, y)`` and the first ``rms_norm(s)`` after it by one ``add_rms_norm``.

    The fused node stands where the addition was: the norm reads nothing else that is computed in between.
    """
    sums = {node.outputs[0]: node for node in graph.nodes if node.op is ops.add}
    fused: dict[Node, Node] = {}
    for node in graph.nodes:
        addition = sums.get(x) if node.op is ops.rms_norm and isinstance(x := node.operands[0], Tensor) else None
        if addition is not None and addition not in fused:
            fused[addition] = node
    norms = set(fused.values())
    nodes = [_fuse(node, fused[node]) if node in fused else node for node in graph.nodes if node not in norms]
    return graph.with_nodes(nodes)


def _fuse(addition: Node, norm: Node) -> Node:
    operands = (*addition.operands, norm.operands[1])
    return Node(ops.add_rms_norm, operands, norm.attributes, (*addition.outputs, *norm.outputs))
