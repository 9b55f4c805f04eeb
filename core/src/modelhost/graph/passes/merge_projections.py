"""Merge projections of one activation (q/k/v, gate/up) into a single GEMM followed by a split."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import cast

from .. import ops
from ..graph import Graph, Node
from ..operation import tracing
from ..tensor import Parameter, Tensor

_Key = tuple[Tensor, str, str, str, bool]


def merge_projections(graph: Graph, encoding_of: Callable[[Parameter], str]) -> Graph:
    """Replace ``linear`` nodes that read one tensor by one ``linear`` with their weights stacked row by row.

    Only weights of equal encoding, dtype and sharding that no other node reads are merged, so the rows stay encoded.
    """
    uses = graph.uses()
    groups: dict[_Key, list[Node]] = defaultdict(list)
    for node in graph.nodes:
        key = _merge_key(node, uses, encoding_of)
        if key is not None:
            groups[key].append(node)
    first = {nodes[0]: nodes for nodes in groups.values() if len(nodes) > 1}
    merged = {node for nodes in first.values() for node in nodes}
    result: list[Node] = []
    for node in graph.nodes:
        if node in first:
            result.extend(_merge(first[node]))
        elif node not in merged:
            result.append(node)
    return graph.with_nodes(result)


def _merge_key(node: Node, uses: dict[Tensor, int], encoding_of: Callable[[Parameter], str]) -> _Key | None:
    if node.op is not ops.linear:
        return None
    x, weight, bias = node.operands
    if not isinstance(x, Tensor) or not isinstance(weight, Parameter) or uses[weight] > 1:
        return None
    if bias is not None and not (isinstance(bias, Parameter) and encoding_of(bias) in {"f32", "f16", "bf16"}):
        return None
    encoding = encoding_of(weight) + (f"+{encoding_of(bias)}" if isinstance(bias, Parameter) else "")
    return x, encoding, weight.dtype, weight.sharding, bias is not None


def _merge(nodes: list[Node]) -> list[Node]:
    x = cast(Tensor, nodes[0].operands[0])
    weight = _stack([node.operands[1] for node in nodes])
    bias = _stack([node.operands[2] for node in nodes]) if nodes[0].operands[2] is not None else None
    sizes = tuple(int(node.outputs[0].shape[-1]) for node in nodes if isinstance(node.outputs[0].shape[-1], int))
    with tracing(Graph("merge")) as fragment:
        merged = ops.linear(x, weight, bias)
        ops.split(merged, sizes=sizes)
    linear, split = fragment.nodes
    return [linear, Node(split.op, split.operands, split.attributes, tuple(node.outputs[0] for node in nodes))]


def _stack(parameters: list[object]) -> Parameter:
    parts = tuple(p for p in parameters if isinstance(p, Parameter))
    rows = sum(part.sizes[0] for part in parts)
    name = "+".join(part.name for part in parts)
    return Parameter(
        (rows, *parts[0].sizes[1:]), sharding=parts[0].sharding, dtype=parts[0].dtype, name=name, parts=parts
    )
