"""Draws a segment of a graph as SVG: a box for each op, and lines along which tensors go."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from modelhost.graph.tensor import Parameter, State, Tensor

from .drawing import element, family, text, titled
from .layout import Layout, place
from .segments import Segment

if TYPE_CHECKING:
    from modelhost.graph.graph import Graph, Node

_HEIGHT, _ROW, _GAP, _THREAD, _CHARACTER = 40, 64, 22, 10, 6.3
_STEP_INPUTS = ("token_ids", "positions")
"""Inputs of a step that are drawn; where the caches' blocks are would only hide the rest."""


@dataclass(frozen=True)
class _Box:
    label: str
    detail: str
    style: str
    tip: str

    @property
    def width(self) -> float:
        return max(64.0, _CHARACTER * max(len(self.label) * 1.35, len(self.detail)) + 18)


class SegmentDrawing:
    """The drawing of one segment.

    Args:
        graph: that the segment is part of.
        encoding_of: the encoding of a parameter.
        tier_of: how the backend computes an op: native, decomposed or missing.
    """

    def __init__(
        self,
        graph: Graph,
        segment: Segment,
        encoding_of: Callable[[Parameter], str],
        tier_of: Mapping[str, str],
    ) -> None:
        self._encoding_of = encoding_of
        self._tier_of = tier_of
        self._boxes: list[_Box] = []
        self._edges: dict[tuple[int, int], str] = {}
        self._makers: dict[Tensor, int] = {}
        self._writers: dict[State, int] = {}
        producers = {output: node for node in graph.nodes for output in node.outputs}
        for tensor in _outside(segment):
            self._add_input(tensor, producers)
        for node in segment.nodes:
            self._add_node(node)
        self._add_results(graph, segment)

    def svg(self) -> str:
        """The picture."""
        layout = place([box.width for box in self._boxes], sorted(self._edges), gap=_GAP, thread=_THREAD)
        height = _ROW * max(layout.rows.values(), default=0) + _HEIGHT
        lines = "".join(
            element("path", titled("", tip), d=_curve(layout, edge), class_="dashed" if tip.startswith("cache") else "")
            for edge, tip in self._edges.items()
        )
        boxes = "".join(self._draw(layout, number, box) for number, box in enumerate(self._boxes))
        size = {"width": f"{layout.width + 4:.0f}", "height": f"{height + 4}"}
        view = f"-2 -2 {layout.width + 4:.0f} {height + 4}"
        return element("svg", element("g", lines, class_="edges") + boxes, viewBox=view, role="img", **size)

    def _add_input(self, tensor: Tensor, producers: Mapping[Tensor, Node]) -> None:
        if tensor.name and tensor.name not in _STEP_INPUTS:
            return
        label = tensor.name or "input"
        source = producers.get(tensor)
        detail = f"from {source.op.name}" if source else "of the step"
        self._makers[tensor] = len(self._boxes)
        self._boxes.append(_Box(label, detail, "port", f"{label}: {_type(tensor)}, {detail}"))

    def _add_node(self, node: Node) -> None:
        number = len(self._boxes)
        weights = [operand for operand in node.operands if isinstance(operand, Parameter)]
        tier = self._tier_of.get(node.op.name, "native")
        style = family(node.op.name) + ("" if tier == "native" else f" {tier}")
        tip = f"{node}\n{tier}" + "".join(f"\n{w.name} {_type(w)} {self._encoding_of(w)}" for w in weights)
        detail = self._detail(node, weights)
        self._boxes.append(_Box(node.op.name, detail, style, tip))
        for tensor in node.tensors:
            if tensor in self._makers:
                self._edges.setdefault((self._makers[tensor], number), _type(tensor))
        for state in node.states:
            if state in self._writers:
                self._edges.setdefault((self._writers[state], number), f"cache {state.name}")
            self._writers[state] = number
        self._makers.update(dict.fromkeys(node.outputs, number))

    def _detail(self, node: Node, weights: list[Parameter]) -> str:
        if not weights or len(weights[0].shape) < 2:
            return _shape(node.outputs[0]) if node.outputs else ", ".join(state.spec.group for state in node.states)
        names = "+".join(_short(part) for part in weights[0].parts or (weights[0],))
        return f"{names} {_shape(weights[0])} {self._encoding_of(weights[0])}"

    def _add_results(self, graph: Graph, segment: Segment) -> None:
        inside = set(segment.nodes)
        used = {tensor for node in graph.nodes if node not in inside for tensor in node.tensors}
        names = {tensor: name for name, tensor in graph.outputs.items()}
        for node in segment.nodes:
            for tensor in node.outputs:
                if tensor in used or tensor in names:
                    self._edges[self._makers[tensor], len(self._boxes)] = _type(tensor)
                    detail = "of the graph" if tensor in names else "to what follows"
                    tip = f"{_type(tensor)}, {detail}"
                    self._boxes.append(_Box(names.get(tensor, "output"), detail, "port", tip))

    def _draw(self, layout: Layout, number: int, box: _Box) -> str:
        x, y = layout.centres[number], layout.rows[number] * _ROW
        shape = element("rect", x=f"{x - box.width / 2:.1f}", y=y, width=f"{box.width:.1f}", height=_HEIGHT, rx=6)
        label = element("text", text(box.label), x=f"{x:.1f}", y=y + 17, class_="label")
        detail = element("text", text(box.detail), x=f"{x:.1f}", y=y + 32, class_="detail")
        return element("g", titled(shape + label + detail, box.tip), class_=f"box {box.style}")


def _outside(segment: Segment) -> list[Tensor]:
    """What the segment reads and does not make, in order of first use."""
    made = {output for node in segment.nodes for output in node.outputs}
    read = (tensor for node in segment.nodes for tensor in node.tensors)
    return list(dict.fromkeys(t for t in read if t not in made and not isinstance(t, Parameter)))


def _curve(layout: Layout, edge: tuple[int, int]) -> str:
    (row, x), *rest = layout.routes[edge]
    y = row * _ROW + _HEIGHT
    path = [f"M{x:.1f} {y}"]
    for place_in_row, (row, next_x) in enumerate(rest, 1):
        top = row * _ROW
        middle = (y + top) / 2
        path.append(f"C{x:.1f} {middle} {next_x:.1f} {middle} {next_x:.1f} {top}")
        if place_in_row < len(rest):
            path.append(f"V{top + _HEIGHT}")
        x, y = next_x, top + _HEIGHT
    return "".join(path)


def _short(parameter: Parameter) -> str:
    """The attribute that holds the parameter."""
    parts = parameter.name.split(".")
    return parts[-2] if parts[-1] in {"weight", "bias"} and len(parts) > 1 else parts[-1]


def _shape(tensor: Tensor) -> str:
    return "×".join(map(str, tensor.shape))


def _type(tensor: Tensor) -> str:
    return f"{tensor.dtype}[{', '.join(map(str, tensor.shape))}]"
