"""The tables of rotary position embeddings, made once in a step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from modelhost.api import UnsupportedError
from modelhost.api.backend import Node
from modelhost.graph import ops
from modelhost_cpu.language.function import Function
from modelhost_cpu.language.math import sin_cos
from modelhost_cpu.language.types import i32, i64, lanes_of
from modelhost_cpu.language.value import Value
from modelhost_cpu.language.vectors import even_part
from modelhost_cpu.native.kernel import Kernel
from modelhost_cpu.program.builder import ProgramBuilder
from modelhost_cpu.program.lowering import lowers
from modelhost_cpu.program.views import Slot, View

from .elementwise import row_grain

if TYPE_CHECKING:
    import numpy.typing as npt

    Int = npt.NDArray[np.int32]

_TABLE_COST = 4
"""An element of a table takes about as long as so many elements of simple arithmetic."""
Frequencies = tuple[tuple[float, ...], ...]


def rope_table(
    k: Kernel, frequencies: Frequencies, pairs: int, scale: float, offset: int = 0, original_length: int = 0
) -> None:
    """Kernel: cosines and sines of a position times every frequency, the angle rounded to ``f32``.

    Slots: ``positions`` and ``y``. Either ``frequencies`` has one row, or two of which the second is for tokens whose
    number in the slot ``lengths`` is above ``original_length``, or none: then the rows are in the slot ``rows``, and
    the slot ``choices`` says which of them a token takes.
    """
    positions, y = k.pointer("positions"), k.pointer("y")
    table = k.pointer("rows") if k.has("rows") else _constant_rows(k, frequencies)
    type_ = even_part(pairs)
    step = 4 * (lanes_of(type_) or 1)
    first, last = k.span(k.chunk, row_grain(2 * pairs * _TABLE_COST))
    with k.loop(first, last) as token:
        position = k.floats(k.load(i32, positions, token * 4) + offset)
        position = position.splat(lanes_of(type_)) if lanes_of(type_) else position
        row, target = table + _choice(k, token, original_length) * (4 * pairs), y + token * (8 * pairs)
        with k.loop(0, pairs * 4, step) as column:
            sine, cosine = sin_cos(k, position * k.load(type_, row, column))
            k.store(cosine * scale, target, column)
            k.store(sine * scale, target + 4 * pairs, column)


def _constant_rows(k: Function, frequencies: Frequencies) -> Value:
    return k.shared_bytes("frequencies", np.asarray(frequencies, np.float32).tobytes())


def _choice(k: Kernel, token: Value, original_length: int) -> Value:
    """Which row of frequencies a token takes."""
    if k.has("choices"):
        return k.load(i32, k.pointer("choices"), token * 4).to(i64)
    if k.has("lengths"):
        return (k.load(i32, k.pointer("lengths"), token * 4) > original_length).to(i64)
    return k.integer(0)


def _call_table(
    b: ProgramBuilder,
    node: Node,
    operands: Mapping[str, Slot | View],
    frequencies: Frequencies,
    scale: float,
    **constants: Any,
) -> None:
    positions: Any = node.operands[0]
    y = b.output(node.outputs[0])
    b.call(
        rope_table,
        y.rows,
        {"positions": b.view(positions), **operands, "y": y},
        grain=row_grain(y.columns * _TABLE_COST),
        frequencies=frequencies,
        pairs=y.columns // 2,
        scale=float(np.float32(scale)),
        **constants,
    )


@lowers(ops.rope_table)
def lower_rope_table(b: ProgramBuilder, node: Node) -> None:
    frequencies, scale, offset = (node.attributes[name] for name in ("frequencies", "scale", "offset"))
    _call_table(b, node, {}, (tuple(frequencies),), scale, offset=offset)


@lowers(ops.rope_table_longrope)
def lower_rope_table_longrope(b: ProgramBuilder, node: Node) -> None:
    lengths: Any = node.operands[1]
    frequencies = tuple(tuple(node.attributes[f"{kind}_frequencies"]) for kind in ("short", "long"))
    limit = node.attributes["original_length"]
    _call_table(b, node, {"lengths": b.view(lengths)}, frequencies, node.attributes["scale"], original_length=limit)


@lowers(ops.rope_table_dynamic)
def lower_rope_table_dynamic(b: ProgramBuilder, node: Node) -> None:
    lengths: Any = node.operands[1]
    if lengths.name not in b.graph.inputs:
        raise UnsupportedError(f"backend 'cpu' takes lengths from an input, not from {lengths}")
    key = f"dynamic_rope.{lengths.name}.{sorted(node.attributes.items())}"

    def rows(inputs: Mapping[str, Int]) -> Int:
        different = np.unique(np.maximum(inputs[lengths.name], node.attributes["original_length"]))
        return dynamic_frequencies(different, **node.attributes).view(np.int32).reshape(-1)

    def choices(inputs: Mapping[str, Int]) -> Int:
        bounded = np.maximum(inputs[lengths.name], node.attributes["original_length"])
        return np.unique(bounded, return_inverse=True)[1].astype(np.int32)

    operands = {"rows": b.derive(f"{key}.rows", rows)[0], "choices": b.derive(f"{key}.choices", choices)[0]}
    _call_table(b, node, operands, (), 1.0)


def dynamic_frequencies(
    lengths: Int, *, base: float, dimensions: int, factor: float, original_length: int
) -> npt.NDArray[np.float32]:
    """The frequencies of sequences of some lengths, which are not below ``original_length``, computed in float64.

    Returns:
        ``[lengths, dimensions / 2]``.
    """
    stretch = (factor * lengths / original_length - (factor - 1)) ** (dimensions / (dimensions - 2))
    exponents = np.arange(0, dimensions, 2, dtype=np.float64) / dimensions
    return (1.0 / (base * stretch[:, None]) ** exponents).astype(np.float32)
