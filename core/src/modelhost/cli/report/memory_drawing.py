"""Draws a memory plan: the budget, the weights by encoding, the KV groups, and the arena over the course of a step."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from modelhost.engine.memory import MemoryPlan, gib
from modelhost.graph.arena import Arena
from modelhost.graph.cache import RecurrentSpec
from modelhost.graph.tensor import State

from .drawing import bar, element, family, table, text, titled
from .segments import layer_number

if TYPE_CHECKING:
    from modelhost.graph.graph import Graph

    from ..explanation import EncodingUse, Explanation

_COLOURS = 6
_WIDTH, _HEIGHT = 960, 300


def budget(explanation: Explanation, plan: MemoryPlan) -> str:
    """A bar of all that the model takes, what the parts are, and how much of the budget that is."""
    parts = list(_parts(explanation, plan))
    legend = "".join(
        element("li", element("i", class_=name) + text(label) + " " + element("b", text(gib(size))))
        for name, label, size in parts
    )
    drawn = [(name, size, f"{label}: {gib(size)}") for name, label, size in parts]
    share = f"{gib(plan.total)} of a budget of {gib(plan.available)}"
    used = element("div", bar([("used", plan.total, share)], max(plan.available, plan.total)), class_="thin")
    return bar(drawn, plan.total) + element("ul", legend, class_="legend") + used + element("p", text(share))


def _parts(explanation: Explanation, plan: MemoryPlan) -> Iterator[tuple[str, str, int]]:
    for number, use in enumerate(explanation.encodings):
        yield f"w{number % _COLOURS}", f"weights in {use.encoding}", use.resident
    for number, group in enumerate(plan.groups):
        size = plan.layout.blocks[group.name] * group.bytes_per_block(plan.layout.block_size)
        yield f"k{number % _COLOURS}", f"KV cache, {group.name.replace('_', ' ')}", size
    yield "space", "workspace of the largest step", plan.workspace


def weights(encodings: list[EncodingUse], dtype: str) -> str:
    """A row for each encoding: in the checkpoint and as loaded, on one scale."""
    most = max((max(use.encoded, use.resident) for use in encodings), default=1)
    rows = [
        (
            element("code", text(use.encoding)),
            f"{use.tensors:,}",
            f"{use.values:,}",
            gib(use.encoded),
            gib(use.resident),
            bar([("faint", use.encoded, f"in the checkpoint: {gib(use.encoded)}")], most)
            + bar([(f"w{number % _COLOURS}", use.resident, f"loaded: {gib(use.resident)}")], most),
            "as it is" if use.native else f"as {text(dtype)}",
        )
        for number, use in enumerate(encodings)
    ]
    header = ["encoding", ">tensors", ">values", ">in the checkpoint", ">loaded", "checkpoint above, loaded below"]
    return table([*header, "computed on"], rows)


def groups(graph: Graph, explanation: Explanation, plan: MemoryPlan | None) -> str:
    """A row for each KV group, and a strip that shows which layer belongs to which."""
    classes = {one.group: f"k{number % _COLOURS}" for number, one in enumerate(explanation.caches)}
    recurrent = {s.spec.group for s in graph.states.values() if isinstance(s.spec, RecurrentSpec)}
    rows = []
    for one in explanation.caches:
        blocks = plan.layout.blocks[one.group] if plan else 0
        group = next((g for g in plan.groups if g.name == one.group), None) if plan else None
        size = gib(blocks * group.bytes_per_block(plan.layout.block_size)) if plan and group else "-"
        window = "all tokens" if one.window is None else f"{one.window:,} tokens"
        if one.group in recurrent:
            window = "its state"
        marked = element("i", class_=f"dot {classes[one.group]}") + element("code", text(one.group))
        rows.append((marked, str(one.layers), window, f"{one.bytes_per_token:,}", f"{blocks:,}" if plan else "-", size))
    header = ["group", ">caches", "a token sees", ">bytes per token or state", ">blocks", ">size"]
    return _strip(list(graph.states.values()), classes) + table(header, rows)


def _strip(states: list[State], classes: dict[str, str]) -> str:
    cells = [
        element(
            "i",
            text(number if (number := layer_number(state.name)) is not None else ""),
            class_=classes.get(state.spec.group, "none"),
            title=f"{state.name}: {state.spec.group}",
        )
        for state in states
    ]
    return element("div", "".join(cells), class_="strip")


def arena(graph: Graph, placed: Arena) -> str:
    """Every intermediate tensor as a rectangle: from the op that makes it to the last that reads it, at its place."""
    steps = max(len(graph.nodes), 1)
    across, down = _WIDTH / (steps + 1), _HEIGHT / max(placed.size, 1)
    makers = {output: node for node in graph.nodes for output in node.outputs}
    boxes = []
    for tensor, offset in placed.offsets.items():
        life = placed.lifetimes[tensor]
        name = makers[tensor].op.name
        shape = ", ".join(map(str, tensor.shape))
        tip = f"{name}: {tensor.dtype}[{shape}]\n{gib(life.nbytes)} at {gib(offset)}\nops {life.first} to {life.last}"
        height = life.nbytes * down
        rectangle = {
            "x": f"{life.first * across:.2f}",
            "y": f"{_HEIGHT - offset * down - height:.2f}",
            "width": f"{(life.last - life.first + 1) * across:.2f}",
            "height": f"{height:.2f}",
        }
        boxes.append(element("rect", titled("", tip), class_=family(name), **rectangle))
    marks = "".join(_layer_marks(graph, across))
    top = element("text", text(gib(placed.size)), x=4, y=-6)
    ends = element("text", "first op", x=0, y=_HEIGHT + 32) + element(
        "text", f"op {len(graph.nodes)}", x=_WIDTH, y=_HEIGHT + 32, text_anchor="end"
    )
    frame = element("rect", class_="frame", x=0, y=0, width=_WIDTH, height=_HEIGHT)
    view = f"-1 -22 {_WIDTH + 2} {_HEIGHT + 60}"
    return element("svg", frame + "".join(boxes) + marks + top + ends, viewBox=view, class_="arena", role="img")


def _layer_marks(graph: Graph, across: float) -> Iterator[str]:
    """A tick and a number where each layer begins; numbers only where there is room."""
    begins: dict[int, int] = {}
    for place, node in enumerate(graph.nodes):
        for operand in node.operands:
            number = layer_number(operand.name) if operand is not None and operand.name else None
            if number is not None:
                begins.setdefault(number, place)
    room = -100.0
    for number, start in begins.items():
        x = start * across
        yield element("line", x1=f"{x:.1f}", x2=f"{x:.1f}", y1=_HEIGHT, y2=_HEIGHT + 6, class_="tick")
        if x - room > 26:
            yield element("text", str(number), x=f"{x:.1f}", y=_HEIGHT + 17, text_anchor="middle")
            room = x
