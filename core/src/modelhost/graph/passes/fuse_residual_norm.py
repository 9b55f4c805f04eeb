"""Fuse a residual addition with the normalisation that follows it."""

from __future__ import annotations

from .. import ops
from ..graph import Graph, Node, Operand
from ..tensor import Parameter


def fuse_residual_norm(graph: Graph) -> Graph:
    """Replace ``s = add(x, y)`` and the first ``rms_norm(s)`` after it by one ``add_rms_norm``.

    The fused node stands where the addition was, so only norms whose weight is a parameter (or none) are fused.
    """
    sums: dict[Operand, Node] = {node.outputs[0]: node for node in graph.nodes if node.op is ops.add}
    fused: dict[Node, Node] = {}
    for node in graph.nodes:
        addition = sums.get(node.operands[0]) if _can_move(node) else None
        if addition is not None and addition not in fused:
            fused[addition] = node
    norms = set(fused.values())
    nodes = [_fuse(node, fused[node]) if node in fused else node for node in graph.nodes if node not in norms]
    return graph.with_nodes(nodes)


def _can_move(node: Node) -> bool:
    return node.op is ops.rms_norm and (node.operands[1] is None or isinstance(node.operands[1], Parameter))


def _fuse(addition: Node, norm: Node) -> Node:
    operands = (*addition.operands, norm.operands[1])
    return Node(ops.add_rms_norm, operands, norm.attributes, (*addition.outputs, *norm.outputs))
