"""Products of rows with the matrices of their experts, by the kernels that other projections use.

Rows and results lie in order of the choices, so that the rows of an expert follow one another.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from modelhost_cpu.encodings.packing import ROWS, Packing, padded_columns
from modelhost_cpu.encodings.plain import Plain
from modelhost_cpu.encodings.quantized import Quantized
from modelhost_cpu.language.types import ptr
from modelhost_cpu.language.value import Value
from modelhost_cpu.native.kernel import Kernel
from modelhost_cpu.program.builder import ProgramBuilder
from modelhost_cpu.program.views import Slot, View
from modelhost_cpu.weights import StoredWeight, group_bytes

from .amx_panel import PANEL, SLAB
from .bfloat16_tiles import COLUMNS, PAIR, blocked_columns, pack_rows, packed_row_bytes
from .expert_lists import ExpertLists, Task, each_task
from .linear_amx import LINEAR_SCRATCH, linear_amx
from .linear_dense import linear_dense
from .linear_exact import linear_exact
from .linear_int8 import linear_int8
from .quantize import quantize, record_row_bytes
from .row_tiles import groups_of_a_chunk
from .shape import gather_rows

_GRAIN_ELEMENTS = 16_384

Path = Literal["exact", "dense", "int8", "amx"]
"""How a product is computed: in float32 in order of the columns; the same for weights without blocks; of rows and
weights in 8-bit integers; of both in bfloat16, in tiles."""


@dataclass(frozen=True, slots=True)
class ExpertProduct:
    """Products with stacked matrices ``[experts, outputs, inputs]``.

    Attributes:
        path: how they are computed.
        packing: of the matrices.
        outputs: rows of a matrix.
        inputs: columns of a matrix.
        task_groups: groups of rows of a matrix that a task multiplies with.
    """

    path: Path
    packing: Packing
    outputs: int
    inputs: int
    task_groups: int

    @property
    def tasks(self) -> int:
        """Tasks for an expert."""
        return -(-self.outputs // (self.task_groups * ROWS))

    @property
    def group_bytes(self) -> int:
        """Bytes of a group."""
        return group_bytes(self.packing, self.inputs)

    @property
    def matrix_bytes(self) -> int:
        """Bytes of a matrix."""
        return -(-self.outputs // ROWS) * self.group_bytes

    @property
    def row_bytes(self) -> int:
        """Bytes of a row of the left operand."""
        sizes = {"int8": record_row_bytes, "amx": packed_row_bytes}
        return sizes[self.path](self.inputs) if self.path in sizes else 4 * self.inputs

    @property
    def scratch(self) -> int:
        """Bytes of scratch memory that a task needs."""
        if self.path == "exact":
            return padded_columns(self.packing, self.inputs) * 4 * ROWS
        return LINEAR_SCRATCH if self.path == "amx" else 0

    def multiply(self, k: Kernel, task: Task, weight: Value, x: Value, y: Value) -> None:
        """Write the code of a task: of the expert with the matrix at ``weight``, for the rows at ``x``, to ``y``."""
        numbers = {"outputs": self.outputs, "inputs": self.inputs, "group_bytes": self.group_bytes}
        strides = {"x_stride": self.row_bytes, "y_stride": 4 * self.outputs}
        inner = k.bound(task.part, work=task.count, weight=weight, x=x, y=y, **numbers, **strides)
        _MULTIPLIERS[self.path](inner, self)


def expert_product(
    b: ProgramBuilder, stored: StoredWeight | None, outputs: int, inputs: int, prompt: bool
) -> ExpertProduct:
    """How products with the stacked matrices ``stored``, ``None`` when memory is being planned, are computed.

    Args:
        prompt: whether the rows are those of prompt tokens on a CPU with tiles.
    """
    packing: Packing = stored.packing if stored is not None and stored.packing is not None else Plain("f32")
    if b.options.exact:
        return ExpertProduct("exact", packing, outputs, inputs, 1)
    if prompt:
        return ExpertProduct("amx", packing, outputs, inputs, PANEL // ROWS)
    groups = groups_of_a_chunk(-(-outputs // ROWS), group_bytes(packing, inputs), b.options.threads)
    return ExpertProduct("int8" if isinstance(packing, Quantized) else "dense", packing, outputs, inputs, groups)


def _exact(k: Kernel, product: ExpertProduct) -> None:
    linear_exact(k, product.packing, product.outputs, product.inputs, product.row_bytes, 4 * product.outputs)


def _rows(k: Kernel, product: ExpertProduct) -> None:
    none = k.zero(ptr)
    inner = k.bound(k.chunk, chunk=product.task_groups, rows=none, bias=none)
    match product.packing:
        case Quantized() as packing:
            linear_int8(inner, packing)
        case Plain() as packing:
            linear_dense(inner, packing)


def _amx(k: Kernel, product: ExpertProduct) -> None:
    width, none = blocked_columns(product.inputs), k.zero(ptr)
    with k.loop(0, (k.work + (SLAB - 1)) // SLAB) as slab, k.loop(0, product.inputs, width) as first:
        inner = k.bound(slab * product.tasks + k.chunk, first=first, width=width, rows=none, bias=none)
        linear_amx(inner, product.packing, product.inputs % COLUMNS != 0)


_MULTIPLIERS: Mapping[Path, Callable[[Kernel, ExpertProduct], None]] = {
    "exact": _exact,
    "dense": _rows,
    "int8": _rows,
    "amx": _amx,
}


def left_operand(b: ProgramBuilder, lists: ExpertLists, x: View, product: ExpertProduct, gather: bool) -> View:
    """Append what makes the left operand of a product: a row for each choice.

    Args:
        x: with ``gather`` the rows of the tensor, else a row for each choice.
    """
    if product.path == "amx":
        return _packed(b, lists, x, product, gather)
    if b.weights is None and product.path == "dense" and product.inputs % COLUMNS == 0:
        _quantized(b, lists, x, product, gather)  # memory is being planned, and the path is not known
    if product.path == "int8":
        return _quantized(b, lists, x, product, gather)
    return _gathered(b, lists, x, product) if gather else x


def _gathered(b: ProgramBuilder, lists: ExpertLists, x: View, product: ExpertProduct) -> View:
    y = lists.memory(b, product.row_bytes)
    grain = max(1, _GRAIN_ELEMENTS // x.columns)
    operands = {"x": x, "y": y, "rows": lists.sources}
    b.call(gather_rows, lists.choices, operands, grain=grain, width=x.columns, x_stride=x.stride, row_grain=grain)
    return y


def _quantized(b: ProgramBuilder, lists: ExpertLists, x: View, product: ExpertProduct, gather: bool) -> View:
    y = lists.memory(b, record_row_bytes(product.inputs))
    grain = max(1, _GRAIN_ELEMENTS // product.inputs)
    operands: dict[str, Any] = {"x": x, "y": y, "rows": lists.sources if gather else Slot()}
    operands |= _numbers(columns=product.inputs, stride=x.stride, grain=grain)
    b.call(quantize, lists.choices, operands, grain=grain)
    return y


def _packed(b: ProgramBuilder, lists: ExpertLists, x: View, product: ExpertProduct, gather: bool) -> View:
    y = lists.memory(b, product.row_bytes)
    operands: dict[str, Any] = {"x": x, "y": y, "rows": lists.sources if gather else Slot(), **lists.slots}
    operands |= _numbers(stride=x.stride)
    b.call(pack_expert_rows, lists.rows.count, operands, columns=lists.chunks, inputs=product.inputs)
    return y


def _numbers(**numbers: int) -> dict[str, Slot]:
    return {name: Slot(offset=number) for name, number in numbers.items()}


def pack_expert_rows(k: Kernel, inputs: int) -> None:
    """Kernel: the rows of each expert in turn as :func:`.bfloat16_tiles.pack_rows` packs them.

    Slots: ``x``, ``y``, ``rows`` (numbers of the rows of ``x``, null if there is one for each choice), ``shares``,
    ``stride`` of ``x`` in bytes, ``chunks``.
    """
    width = blocked_columns(inputs)
    blocks = -(-inputs // width)
    rows = k.pointer("rows")
    every = rows.to_integer().equals(0)
    for task in each_task(k, 1):
        x = k.pointer("x") + k.select(every, task.first * k.number("stride"), k.integer(0))
        own = k.select(every, rows, rows + task.first * 4)
        y = k.pointer("y") + task.first * packed_row_bytes(inputs)
        with k.loop(0, (task.count + (PAIR - 1)) // PAIR * blocks) as part:
            pack_rows(k.bound(part, work=task.count, x=x, y=y, rows=own, inputs=inputs, width=width))
