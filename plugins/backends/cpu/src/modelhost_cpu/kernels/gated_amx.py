"""Prompt rows of a projection whose halves gate each other: the results become the packed rows of the next projection.

``activation(x @ gate.T) * (x @ up.T)`` is as large as the tiles of sums that it is made of, so neither of the products
is ever in memory.
"""

from __future__ import annotations

from typing import Any

from modelhost.api.backend import Graph, Node, Tensor
from modelhost.graph import ops
from modelhost_cpu.encodings.packing import ROWS, Packing
from modelhost_cpu.language.convert import narrow
from modelhost_cpu.language.types import bf16
from modelhost_cpu.language.value import Value
from modelhost_cpu.native.kernel import Kernel
from modelhost_cpu.program.builder import ProgramBuilder
from modelhost_cpu.program.rows import RowSet, prompt_and_generated
from modelhost_cpu.program.views import Slot, View

from .activations import ACTIVATIONS
from .amx_panel import PANEL_SCRATCH, SLAB, SUM_BYTES, VECTOR, Panel, Place, Rows, multiply_panel, sum_line
from .bfloat16_tiles import COLUMNS, LINE, blocked_columns, packed_row_bytes, packed_rows, use_packed_rows
from .projection import Projection


def gating_of(b: ProgramBuilder, node: Node) -> Node | None:
    """The activation that gates one half of the projection ``node`` with the other, if nothing else uses the halves and
    only projections use the result.
    """
    users = b.shared("users of tensors", lambda: _users(b.graph))
    split = _only(users, node.outputs[0], ops.split)
    if split is None or len(split.outputs) != 2 or len(node.outputs[0].shape) != 2:
        return None
    gate, up = (_only(users, half, ops.gated_activation) for half in split.outputs)
    if gate is None or gate is not up or gate.operands != split.outputs:
        return None
    uses = users.get(gate.outputs[0], [])
    projections = all(user is not None and user.op is ops.linear and user.operands[1:] for user in uses)
    return gate if uses and projections else None


def _users(graph: Graph) -> dict[Tensor, list[Node | None]]:
    """The nodes that use each tensor; ``None`` stands for the caller of the graph."""
    users: dict[Tensor, list[Node | None]] = {tensor: [None] for tensor in graph.outputs.values()}
    for node in graph.nodes:
        for tensor in node.tensors:
            users.setdefault(tensor, []).append(node)
    return users


def _only(users: dict[Tensor, list[Node | None]], tensor: Tensor, op: Any) -> Node | None:
    """The only user of a tensor, if it is an ``op``."""
    found = users.get(tensor, [])
    return found[0] if len(found) == 1 and found[0] is not None and found[0].op is op else None


def call_gated_amx(b: ProgramBuilder, p: Projection, rows: RowSet, activation: Node) -> bool:
    """Append the projection and its activation for the prompt rows in ``rows``, where their shapes allow it.

    Returns:
        whether they do.
    """
    hidden = p.outputs // 2
    if hidden % COLUMNS or p.outputs != 2 * hidden or blocked_columns(p.inputs) != p.inputs:
        return False
    packed = b.temporary(p.x.symbol, p.x.rows.scale * packed_row_bytes(hidden))
    numbers = {"hidden": hidden, "inputs": p.inputs, "width": blocked_columns(hidden), "group_bytes": p.group_bytes}
    b.call(
        gated_amx,
        rows.count,
        {
            "x": packed_rows(b, p.x, rows),
            "y": packed,
            "weight": p.weight,
            "bias": p.bias or Slot(),
            **{name: Slot(offset=number) for name, number in numbers.items()},
        },
        grain=SLAB,
        columns=hidden // COLUMNS,
        scratch=PANEL_SCRATCH + SUM_BYTES,
        detail=p.detail,
        weight_bytes=p.weight_bytes,
        packing=p.packing,
        ragged=p.inputs % COLUMNS != 0,
        kind=activation.attributes["kind"],
    )
    b.shared(_key(activation), lambda: packed)
    return True


def _key(activation: Node) -> object:
    return "packed results", activation.outputs[0]


def rows_left(b: ProgramBuilder, activation: Node, y: View) -> RowSet | None:
    """The rows of ``y``, the result of ``activation``, that are not computed yet; ``None`` for all.

    Those that a projection has computed are known as packed rows of ``y`` from now on.
    """
    packed: View | None = b.shared(_key(activation), lambda: None)
    if packed is None:
        return None
    prompt, generated = prompt_and_generated(b, y)
    if prompt is not None:
        use_packed_rows(b, y, prompt, packed)
    return generated


def gated_amx(k: Kernel, packing: Packing, ragged: bool, kind: str) -> None:
    """Kernel: 32 columns of the result for a slab of packed rows.

    Slots: ``x`` (packed rows), ``y`` (packed results), ``weight`` and ``bias`` (null for none), of which the first half
    gates the second; ``hidden`` columns of the result, ``inputs``, ``width`` of a block of columns of the result,
    ``group_bytes``.
    """
    steps = k.number("hidden") // COLUMNS
    step, span = k.chunk % steps, k.span(k.chunk // steps, SLAB)
    inputs = (k.number("inputs") + (COLUMNS - 1)) // COLUMNS
    with k.loop(0, COLUMNS // ROWS) as half:
        number = step * (COLUMNS // ROWS) + half
        numbers = number, number + k.number("hidden") // ROWS
        groups = [k.pointer("weight") + each * k.number("group_bytes") for each in numbers]
        panel = Panel(packing, groups, inputs, k.number("inputs") if ragged else None)
        results = _Gated(k, kind, step, half, numbers)
        multiply_panel(k, panel, k.pointer("x") + span[0] * inputs * LINE, span, results)


class _Gated:
    """Results as half a line of packed rows."""

    def __init__(self, k: Kernel, kind: str, step: Value, half: Value, groups: tuple[Value, Value]) -> None:
        self._k, self._kind = k, kind
        first = step * COLUMNS
        block = first - first % k.number("width")
        columns = k.minimum(k.number("hidden") - block, k.number("width"))
        self._steps, self._step = columns // COLUMNS, (first - block) // COLUMNS
        self._target = k.pointer("y") + k.work * block * 2 + half * (LINE // 2)
        self._bias = self._load_bias(k.scratch + PANEL_SCRATCH, groups)

    def _load_bias(self, place: Value, groups: tuple[Value, Value]) -> Place:
        k, bias = self._k, self._k.pointer("bias")
        count = k.select(bias.to_integer().equals(0), k.integer(0), k.integer(ROWS))
        for index, group in enumerate(groups):
            k.store(k.load_masked(VECTOR, bias + group * LINE, count), place, index * LINE, align=LINE)
        return Place(place, k.integer(0), k.integer(0), k.integer(LINE))

    def start(self, rows: Rows, is_first: Value) -> Place:
        return self._bias

    def end(self, rows: Rows) -> Place:
        return rows.sums

    def prefetch(self, rows: Rows, step: Value, is_first: Value, is_last: Value) -> None:
        """The results are small."""

    def finish(self, rows: Rows) -> None:
        k = self._k
        target = self._target + (rows.first * self._steps + self._step * rows.count) * LINE
        with k.loop(0, rows.count) as row:
            gate, up = (k.load(VECTOR, sum_line(rows.sums, row, group), align=LINE) for group in range(2))
            value = ACTIVATIONS[self._kind](k, gate) * up
            k.store(narrow(k, value, bf16), target, row * LINE, align=LINE // 2)
