"""Mixtures of experts: gated multilayer perceptrons of which every token uses a few."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from modelhost.api.backend import Node
from modelhost.graph import ops
from modelhost_cpu.encodings.packing import ROWS
from modelhost_cpu.language.types import f32, i32, i64
from modelhost_cpu.language.value import Value
from modelhost_cpu.language.vectors import FLOATS, LANES, each_vector, load_part, store_part
from modelhost_cpu.native.kernel import Kernel
from modelhost_cpu.program.builder import ProgramBuilder
from modelhost_cpu.program.lowering import lowers
from modelhost_cpu.program.rows import RowSet, prompt_and_generated
from modelhost_cpu.program.views import Slot, View
from modelhost_cpu.weights import StoredWeight

from .elementwise import clamped, gated
from .expert_lists import ExpertLists, Task, each_task, expert_lists
from .expert_products import ExpertProduct, expert_product, left_operand
from .row_number import row_number

_GRAIN_ELEMENTS = 16_384


@dataclass(frozen=True, slots=True)
class Gating:
    """``activation(min(gate, gate_limit)) * clip(up, up_limit)``.

    Attributes:
        kind: of the activation.
        gate_limit: the most that a gate counts, or ``None``.
        up_limit: the largest magnitude that an up counts, or ``None``.
    """

    kind: str
    gate_limit: float | None
    up_limit: float | None

    def apply(self, k: Kernel, gate: Value, up: Value) -> Value:
        """The formula."""
        gate = clamped(k, gate, None, self.gate_limit)
        low = None if self.up_limit is None else -self.up_limit
        return gated(k, gate, clamped(k, up, low, self.up_limit), self.kind)


@dataclass(frozen=True, slots=True)
class _Experts:
    """The op's operands.

    Attributes:
        x: rows.
        weights: of each row's choices.
        ids: experts of each row's choices.
        y: results.
        matrices: gate, up and down; ``None`` when memory is being planned.
        shape: experts, inner size and size of a row.
        gating: between the products.
    """

    x: View
    weights: View
    ids: View
    y: View
    matrices: tuple[StoredWeight | None, ...]
    shape: tuple[int, int, int]
    gating: Gating


@lowers(ops.experts)
def lower_experts(b: ProgramBuilder, node: Node) -> None:
    tensors: list[Any] = list(node.operands)
    x, weights, ids = (b.view(tensor) for tensor in tensors[:3])
    matrices = tuple(b.parameter(tensor) for tensor in tensors[3:])
    y = b.output(node.outputs[0])
    experts = _Experts(x, weights, ids, y, matrices, tensors[3].sizes, Gating(**node.attributes))
    if b.options.exact:
        _call_experts(b, experts, RowSet(x.rows), False)
        return
    prompt, generated = prompt_and_generated(b, x)
    if prompt is not None:
        _call_experts(b, experts, prompt, True)
    if generated is not None:
        _call_experts(b, experts, generated, False)


def _call_experts(b: ProgramBuilder, experts: _Experts, rows: RowSet, prompt: bool) -> None:
    count, inner, width = experts.shape
    gate, up, down = experts.matrices
    lists = expert_lists(b, experts.ids, rows, count)
    first = expert_product(b, gate, inner, width, prompt)
    second = replace(expert_product(b, up, inner, width, prompt), task_groups=first.task_groups)
    hidden = _call_gated(b, experts, lists, (first, second))
    last = expert_product(b, down, width, inner, prompt)
    results = lists.memory(b, 4 * width)
    b.call(
        expert_results,
        rows.count,
        {
            "x": left_operand(b, lists, hidden, last, gather=False),
            "y": results,
            "weight": _address(down),
            **lists.slots,
        },
        columns=lists.chunks,
        scratch=last.scratch,
        detail=f"{last.packing.name} {count}x{width}x{inner}",
        product=last,
    )
    _call_combine(b, experts, lists, results)


def _address(stored: StoredWeight | None) -> Slot:
    return Slot(offset=stored.address if stored is not None else 0)


def _call_gated(
    b: ProgramBuilder, experts: _Experts, lists: ExpertLists, products: tuple[ExpertProduct, ExpertProduct]
) -> View:
    """Append the first two products and what is between them and the third; a row of results for each choice."""
    count, inner, width = experts.shape
    gate, up = products
    x = left_operand(b, lists, experts.x, gate, gather=True)
    gates, ups = (lists.memory(b, 4 * inner) for _ in range(2))
    b.call(
        gated_experts,
        lists.rows.count,
        {
            "x_gate": x,
            "x_up": x if gate.path == up.path else left_operand(b, lists, experts.x, up, gather=True),
            "gates": gates,
            "ups": ups,
            "gate": _address(experts.matrices[0]),
            "up": _address(experts.matrices[1]),
            **lists.slots,
        },
        columns=lists.chunks,
        scratch=max(product.scratch for product in products),
        detail=f"{gate.packing.name} 2x{count}x{inner}x{width}",
        gate=gate,
        up=up,
        gating=experts.gating,
    )
    return replace(gates, columns=inner, stride=4 * inner)


def gated_experts(k: Kernel, gate: ExpertProduct, up: ExpertProduct, gating: Gating) -> None:
    """Kernel: ``gating(gate @ x, up @ x)`` for each choice, into ``gates``.

    Slots: the left operands ``x_gate`` and ``x_up``, the matrices ``gate`` and ``up``, memory ``gates`` and ``ups``,
    ``shares`` and ``chunks``.
    """
    operands = [("gate", "x_gate", "gates"), ("up", "x_up", "ups")]
    for task in each_task(k, gate.tasks):
        for product, names in zip((gate, up), operands, strict=True):
            _multiply(k, product, task, *(k.pointer(name) for name in names))
        first = task.part * (gate.task_groups * ROWS)
        last = k.minimum(first + gate.task_groups * ROWS, k.integer(gate.outputs))
        with k.loop(task.first, task.first + task.count) as choice, k.loop(first, last, LANES) as column:
            gates, ups = (k.pointer(name) + (choice * gate.outputs + column) * 4 for name in ("gates", "ups"))
            count = last - column
            value = gating.apply(k, *(k.load_masked(FLOATS, source, count) for source in (gates, ups)))
            k.store_masked(value, gates, count)


def expert_results(k: Kernel, product: ExpertProduct) -> None:
    """Kernel: the last product for each choice. Slots: ``x``, ``y``, ``weight``, ``shares``, ``chunks``."""
    for task in each_task(k, product.tasks):
        _multiply(k, product, task, k.pointer("weight"), k.pointer("x"), k.pointer("y"))


def _multiply(k: Kernel, product: ExpertProduct, task: Task, weight: Value, x: Value, y: Value) -> None:
    x, y = x + task.first * product.row_bytes, y + task.first * (4 * product.outputs)
    product.multiply(k, task, weight + task.expert * product.matrix_bytes, x, y)


def _call_combine(b: ProgramBuilder, experts: _Experts, lists: ExpertLists, results: View) -> None:
    y = experts.y
    grain = max(1, _GRAIN_ELEMENTS // (y.columns * lists.top_k))
    b.call(
        combine_experts,
        lists.rows.count,
        {
            "x": results,
            "y": y,
            "weights": experts.weights,
            "places": lists.places,
            "rows": lists.rows.indices or Slot(),
        },
        grain=grain,
        columns_of_row=y.columns,
        top_k=lists.top_k,
        strides=(experts.weights.stride, y.stride),
        row_grain=grain,
    )


def combine_experts(k: Kernel, columns_of_row: int, top_k: int, strides: tuple[int, int], row_grain: int) -> None:
    """Kernel: the weighted sum of each row's choices, in their order.

    Slots: ``x``, a row for each choice; ``y``, ``weights``, ``places``, ``rows`` (null for all rows).
    """
    first, last = k.span(k.chunk, row_grain)
    with k.loop(first, last) as row:
        number = row_number(k, row)
        weights, places = k.pointer("weights") + number * strides[0], k.pointer("places") + row * (4 * top_k)
        for offset, count in each_vector(k, columns_of_row):
            total = k.variable(k.zero(FLOATS))
            with k.loop(0, top_k) as choice:
                source = k.pointer("x") + k.load(i32, places, choice * 4).to(i64) * (4 * columns_of_row)
                weight = k.load(f32, weights, choice * 4).splat(LANES)
                total.set(k.fma(weight, load_part(k, source, offset, count), total.value))
            store_part(k, total.value, k.pointer("y") + number * strides[1], offset, count)
