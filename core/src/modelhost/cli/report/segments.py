"""Cuts a graph into layers, and finds those that are alike."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from modelhost.graph.tensor import Parameter, State, Tensor

if TYPE_CHECKING:
    from modelhost.graph.graph import Graph, Node

_LAYER = re.compile(r"\.(\d+)\.")


@dataclass(frozen=True)
class Segment:
    """Neighbouring nodes of a graph.

    Attributes:
        title: what it is.
        nodes: in order of execution.
        layers: numbers of the layers that look like this; empty for what is before and after all layers.
    """

    title: str
    nodes: tuple[Node, ...]
    layers: tuple[int, ...] = ()


def segments(graph: Graph) -> list[Segment]:
    """What comes before the layers, one segment for each kind of layer, and what comes after."""
    numbers = _layer_of_nodes(graph)
    groups: dict[int, list[Node]] = {}
    for node, number in zip(graph.nodes, numbers, strict=True):
        groups.setdefault(number, []).append(node)
    before, after = groups.pop(-1, []), groups.pop(len(graph.nodes), [])
    alike: dict[object, tuple[list[Node], list[int]]] = {}
    for number, nodes in groups.items():
        alike.setdefault(_signature(nodes), (nodes, []))[1].append(number)
    layers = [Segment(_title(found), tuple(nodes), tuple(found)) for nodes, found in alike.values()]
    ends = [Segment("Before the layers", tuple(before)), Segment("After the layers", tuple(after))]
    return [segment for segment in (ends[0], *layers, ends[1]) if segment.nodes]


def layer_number(name: str) -> int | None:
    """The number of the layer that a parameter or state belongs to."""
    match = _LAYER.search(name)
    return int(match[1]) if match else None


def _layer_of_nodes(graph: Graph) -> list[int]:
    """-1 before the first layer, the number of nodes after the last, and in between the latest layer seen."""
    stated = [_stated_layer(node) for node in graph.nodes]
    last = max((place for place, number in enumerate(stated) if number is not None), default=-1)
    numbers: list[int] = []
    current = -1
    for place, number in enumerate(stated):
        current = current if number is None else number
        numbers.append(current if place <= last else len(graph.nodes))
    return numbers


def _stated_layer(node: Node) -> int | None:
    named = (operand for operand in node.operands if isinstance(operand, Parameter | State))
    return next((number for number in (layer_number(operand.name) for operand in named) if number is not None), None)


def _signature(nodes: list[Node]) -> tuple[object, ...]:
    """Equal for layers that differ in their number only."""
    places: dict[Tensor, tuple[int, int]] = {}
    rows: list[object] = []
    for index, node in enumerate(nodes):
        operands = tuple(_operand_key(operand, places) for operand in node.operands)
        rows.append((node.op.name, operands, tuple(sorted((key, repr(v)) for key, v in node.attributes.items()))))
        places.update({output: (index, place) for place, output in enumerate(node.outputs)})
    return tuple(rows)


def _operand_key(operand: Tensor | State | None, places: Mapping[Tensor, tuple[int, int]]) -> object:
    match operand:
        case None:
            return None
        case State():
            return (_LAYER.sub(".", operand.name), operand.spec)
        case Parameter():
            return (_LAYER.sub(".", operand.name), operand.shape)
        case _:
            return places.get(operand, (operand.name, operand.dtype, operand.shape))


def _title(layers: list[int]) -> str:
    words = ", ".join(_ranges(layers))
    return f"Layer {words}" if len(layers) == 1 else f"Layers {words}"


def _ranges(numbers: list[int]) -> Iterator[str]:
    start = previous = numbers[0]
    for number in [*numbers[1:], -1]:
        if number != previous + 1:
            yield (
                str(start)
                if start == previous
                else f"{start} to {previous}"
                if previous > start + 1
                else (f"{start}, {previous}")
            )
            start = number
        previous = number
