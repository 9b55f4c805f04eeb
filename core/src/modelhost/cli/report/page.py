"""Puts the page together. It is one file: styles are in it, and nothing is fetched."""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING, Any

from modelhost.engine.memory import MemoryPlan, gib
from modelhost.graph.arena import plan_arena

from ..loaded import model_line
from . import memory_drawing
from .drawing import FAMILIES, element, table, text
from .graph_drawing import SegmentDrawing
from .segments import segments

if TYPE_CHECKING:
    from modelhost.plugins import Selection

    from ..explanation import Explanation, OpUse


def render_page(explanation: Explanation, memory: MemoryPlan | str) -> str:
    """The HTML of the page.

    Args:
        memory: the plan, or why there is none.
    """
    plan = memory if isinstance(memory, MemoryPlan) else None
    body = [
        _head(explanation, plan),
        _section("Memory", _memory(explanation, memory)),
        _section("Weights", memory_drawing.weights(explanation.encodings, explanation.selection.dtype)),
        _section("KV cache", memory_drawing.groups(explanation.graph, explanation, plan)),
        *([_section("Workspace over one step", _arena(explanation, plan))] if plan else []),
        _section("Graph", _graph(explanation)),
        _section("Ops", table(["op", ">count", "tier"], map(_op_row, explanation.ops))),
        _section("Plugins", _candidates("architecture", explanation.source.selection))
        + _candidates("backend", explanation.selection),
    ]
    style = files(__package__).joinpath("page.css").read_text(encoding="utf-8")
    name = explanation.source.checkpoint.path.name
    head = (
        '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
        + element("title", f"{text(name)} on {text(explanation.selection.chosen.id)}")
        + f"<style>{style}</style>"
    )
    return f'<!doctype html>\n<html lang="en"><head>{head}</head><body><main>{"".join(body)}</main></body></html>\n'


def _section(title: str, content: str) -> str:
    return element("section", element("h2", text(title)) + content)


def _head(explanation: Explanation, plan: MemoryPlan | None) -> str:
    selection, source = explanation.selection, explanation.source
    values = sum(use.values for use in explanation.encodings)
    facts = [
        ("architecture", source.selection.chosen.id, source.selection.chosen.owner),
        ("backend", f"{selection.chosen.id} on {selection.device}", selection.chosen.owner),
        ("activations", selection.dtype, ""),
        (
            "parameters",
            f"{values / 1e6:,.1f} million",
            f"{sum(use.tensors for use in explanation.encodings):,} tensors",
        ),
    ]
    if plan:
        facts.append(("peak memory", gib(plan.total), f"of {gib(plan.available)}"))
        facts.append(("context", f"{plan.max_model_len:,} tokens", ""))
    cards = "".join(
        element("div", element("span", text(label)) + element("b", text(value)) + element("small", text(note)))
        for label, value, note in facts
    )
    heading = element("h1", text(source.checkpoint.path.name)) + element("p", text(model_line(source)), class_="path")
    return element("header", heading + element("div", cards, class_="cards"))


def _memory(explanation: Explanation, memory: MemoryPlan | str) -> str:
    if isinstance(memory, str):
        return element("pre", text(memory), class_="problem")
    return memory_drawing.budget(explanation, memory)


def _arena(explanation: Explanation, plan: MemoryPlan) -> str:
    placed = plan_arena(explanation.graph, plan.sizes)
    note = (
        f"Intermediate tensors of the largest step, of {plan.sizes['T']:,} tokens. Time goes to the right, with a "
        "column for each op and the numbers of the layers below. A tensor lies at its place in memory from the op that "
        f"makes it to the last that reads it. Together they take {gib(placed.size)}; the backend states "
        f"{gib(plan.workspace)} of workspace."
    )
    return element("p", text(note)) + _key() + memory_drawing.arena(explanation.graph, placed)


def _key() -> str:
    names = {"product": "products and embeddings", "cache": "cache", "other": "element-wise and other"}
    marks = [element("li", element("i", class_=name) + text(names.get(name, name))) for name in [*FAMILIES, "other"]]
    return element("ul", "".join(marks), class_="legend")


def _graph(explanation: Explanation) -> str:
    tiers = {use.op: use.tier for use in explanation.ops}
    source = explanation.source
    figures = []
    for segment in segments(explanation.graph):
        drawing = SegmentDrawing(explanation.graph, segment, source.encoding_of, tiers)
        count = f"{len(segment.nodes)} op{'s' if len(segment.nodes) > 1 else ''}"
        if len(segment.layers) > 1:
            count = f"{len(segment.layers)} times {count}"
        caption = element("figcaption", element("b", text(segment.title)) + element("span", text(count)))
        figures.append(element("figure", caption + element("div", drawing.svg(), class_="wide")))
    note = "After all passes. Layers that are alike are drawn once. A dashed line is a cache; hover for details."
    return element("p", note) + _key() + element("div", "".join(figures), class_="figures")


def _op_row(use: OpUse) -> tuple[str, str, str]:
    kernels = ", ".join(f"{count} {name}" for name, count in use.kernels.items())
    tier = f"{use.tier} into {kernels}" if kernels else use.tier
    return element("code", text(use.op)), f"{use.count:,}", element("span", text(tier), class_=f"tier {use.tier}")


def _candidates(kind: str, selection: Selection[Any]) -> str:
    rows = [
        (element("code", text(one.id)), text(one.owner), text(one.verdict), text(one.reason))
        for one in selection.candidates
    ]
    return table([kind, "package", "verdict", "reason"], rows)
