"""Plan of the memory that a graph's intermediate tensors take."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .graph import Graph
from .tensor import Parameter, Tensor


@dataclass(slots=True)
class Lifetime:
    """When a tensor needs memory.

    Attributes:
        nbytes: of the tensor, rounded up to the alignment.
        first: place of the node that makes it.
        last: place of the last node that reads it; the number of nodes for an output of the graph.
    """

    nbytes: int
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Arena:
    """Where each intermediate tensor lies in one block of memory.

    Attributes:
        offsets: byte offset of each tensor that owns memory.
        size: bytes of the block.
        lifetimes: of each of these tensors.
    """

    offsets: Mapping[Tensor, int]
    size: int
    lifetimes: Mapping[Tensor, Lifetime]


def plan_arena(graph: Graph, sizes: Mapping[str, int], *, alignment: int = 64) -> Arena:
    """Place the intermediate tensors so that those alive at one time do not overlap.

    Args:
        sizes: the value of every symbol, at the largest step to be run.
        alignment: of every offset, in bytes.

    The placement goes from the largest tensor to the smallest, each into the lowest gap that fits for its whole
    lifetime (Pisarchyk and Lee, Efficient Memory Management for Deep Neural Net Inference, 2020).
    """
    lifetimes = _lifetimes(graph, sizes, alignment)
    offsets: dict[Tensor, int] = {}
    for tensor, life in sorted(lifetimes.items(), key=lambda item: -item[1].nbytes):
        taken = sorted(
            (offset, offset + lifetimes[other].nbytes)
            for other, offset in offsets.items()
            if lifetimes[other].first <= life.last and life.first <= lifetimes[other].last
        )
        offsets[tensor] = _lowest_gap(taken, life.nbytes)
    size = max((offset + lifetimes[t].nbytes for t, offset in offsets.items()), default=0)
    return Arena(offsets, size, lifetimes)


def _lowest_gap(taken: list[tuple[int, int]], nbytes: int) -> int:
    position = 0
    for start, end in taken:
        if start - position >= nbytes:
            break
        position = max(position, end)
    return position


def _lifetimes(graph: Graph, sizes: Mapping[str, int], alignment: int) -> dict[Tensor, Lifetime]:
    owner: dict[Tensor, Tensor] = {}
    lifetimes: dict[Tensor, Lifetime] = {}
    for index, node in enumerate(graph.nodes):
        for tensor in node.tensors:
            base = owner.get(tensor, tensor)
            if base in lifetimes:
                lifetimes[base].last = index
        source = node.operands[0] if node.op.view else None
        for output in node.outputs:
            if isinstance(source, Tensor) and not isinstance(source, Parameter):
                owner[output] = owner.get(source, source)
            else:
                nbytes = -(-output.nbytes(sizes) // alignment) * alignment
                lifetimes[output] = Lifetime(nbytes, index, index)
    for tensor in graph.outputs.values():
        base = owner.get(tensor, tensor)
        if base in lifetimes:
            lifetimes[base].last = len(graph.nodes)
    return lifetimes
