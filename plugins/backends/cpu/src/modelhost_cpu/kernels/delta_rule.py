"""The gated delta rule, token by token.

A chunk is one sequence, one head and some columns of its state, which do not depend on the other columns. They stay in
scratch memory while the chunk goes through the tokens.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from modelhost.api.backend import Node
from modelhost.graph import ops
from modelhost_cpu.language.math import exp
from modelhost_cpu.language.types import f32
from modelhost_cpu.language.value import Value
from modelhost_cpu.language.vectors import BYTES, FLOATS, LANES, each_vector, load_part
from modelhost_cpu.native.kernel import Kernel
from modelhost_cpu.program.builder import ProgramBuilder
from modelhost_cpu.program.lowering import lowers

from .norm import sum_row
from .sequences import load_sequence, sequence_count, sequence_operands

_SMALL = 1e-6
"""Added to a sum of squares before its root is taken."""
_OPERANDS = ("query", "key", "value", "decay", "beta")


@dataclass(frozen=True)
class DeltaShape:
    """Sizes of a layer.

    Attributes:
        strides: bytes from token to token of query, key, value, decay and beta.
        by_row: whether every row of the state has a decay of its own.
        tiled: whether the key head of value head h is ``h % key_heads`` instead of ``h // (value_heads / key_heads)``.
    """

    key_heads: int
    value_heads: int
    key_dim: int
    value_dim: int
    strides: tuple[int, ...]
    by_row: bool
    tiled: bool

    @property
    def vectors(self) -> int:
        """Vectors of columns in a chunk: a divisor of their number."""
        vectors = -(-self.value_dim // LANES)
        return next(count for count in (4, 2, 1) if vectors % count == 0)

    @property
    def blocks(self) -> int:
        """Chunks of a head."""
        return -(-self.value_dim // (self.vectors * LANES))

    @property
    def row_bytes(self) -> int:
        """Bytes of a row of the state in scratch memory."""
        return self.vectors * BYTES

    @property
    def vector_bytes(self) -> int:
        """Bytes of a query, a key or the decays in scratch memory."""
        return -(-self.key_dim // LANES) * BYTES

    @property
    def scratch_bytes(self) -> int:
        """A state, then decays, keys times decays, keys and queries."""
        return self.key_dim * self.row_bytes + 4 * self.vector_bytes


def gated_delta_rule(k: Kernel, shape: DeltaShape, scale: float, normalize: bool) -> None:
    """Kernel: all tokens of a sequence for some columns of one head.

    Slots: ``query``, ``key``, ``value``, ``decay``, ``beta``, ``y``, ``state`` and those of the sequences.
    """
    chunks = shape.value_heads * shape.blocks
    head, block = k.chunk % chunks // shape.blocks, k.chunk % shape.blocks
    sequence = load_sequence(k, k.chunk // chunks, 4 * shape.value_heads * shape.key_dim * shape.value_dim)
    columns = _Columns(k, shape, block)
    matrix = head * (4 * shape.key_dim * shape.value_dim)
    with k.loop(0, shape.key_dim) as row:
        values = columns.load(sequence.before + matrix + row * (4 * shape.value_dim))
        columns.keep([k.select(sequence.fresh, k.zero(FLOATS), value) for value in values], row)
    with k.loop(sequence.start, sequence.end) as token:
        _prepare(k, shape, token, head, normalize)
        _advance(k, shape, columns, token, head, scale)
    with k.loop(0, shape.key_dim) as row:
        columns.store(columns.kept(row), sequence.after + matrix + row * (4 * shape.value_dim))


class _Columns:
    """The columns of a chunk: some vectors, of which the last one may be filled in part."""

    def __init__(self, k: Kernel, shape: DeltaShape, block: Value) -> None:
        self._k, self._shape = k, shape
        self._start = block * (shape.vectors * LANES)
        self._left = k.integer(shape.value_dim) - self._start
        self._whole = shape.value_dim % LANES == 0

    def load(self, row: Value) -> list[Value]:
        """The columns of a row in memory."""
        k, base = self._k, row + self._start * 4
        if self._whole:
            return [k.load(FLOATS, base, index * BYTES) for index in range(self._shape.vectors)]
        return [
            k.load_masked(FLOATS, base + index * BYTES, self._left - index * LANES)
            for index in range(self._shape.vectors)
        ]

    def store(self, values: list[Value], row: Value) -> None:
        """Write the columns of a row to memory."""
        k, base = self._k, row + self._start * 4
        for index, value in enumerate(values):
            if self._whole:
                k.store(value, base, index * BYTES)
            else:
                k.store_masked(value, base + index * BYTES, self._left - index * LANES)

    def kept(self, row: Value) -> list[Value]:
        """The columns of a row of the state in scratch memory."""
        k, base = self._k, self._k.scratch + row * self._shape.row_bytes
        return [k.load(FLOATS, base, index * BYTES, align=64) for index in range(self._shape.vectors)]

    def keep(self, values: list[Value], row: Value) -> None:
        """Write the columns of a row of the state to scratch memory."""
        base = self._k.scratch + row * self._shape.row_bytes
        for index, value in enumerate(values):
            self._k.store(value, base, index * BYTES, align=64)


def _vectors(k: Kernel, shape: DeltaShape) -> list[Value]:
    """Addresses in scratch memory of decays, keys times decays, keys and queries."""
    base = k.scratch + shape.key_dim * shape.row_bytes
    return [base + index * shape.vector_bytes for index in range(4)]


def _prepare(k: Kernel, shape: DeltaShape, token: Value, head: Value, normalize: bool) -> None:
    """The decays, keys and queries of a token."""
    decays, decayed, keys, queries = _vectors(k, shape)
    key_head = head % shape.key_heads if shape.tiled else head // (shape.value_heads // shape.key_heads)
    for name, stride, target in zip(("query", "key"), shape.strides, (queries, keys), strict=False):
        source = k.pointer(name) + token * stride + key_head * (4 * shape.key_dim)
        factor = _inverse_length(k, source, shape.key_dim) if normalize else k.constant(FLOATS, 1.0)
        for offset, count in each_vector(k, shape.key_dim):
            k.store(load_part(k, source, offset, count) * factor, target, offset)
    source = k.pointer("decay") + token * shape.strides[3] + head * (4 * shape.key_dim if shape.by_row else 4)
    for offset, count in each_vector(k, shape.key_dim):
        logarithm = load_part(k, source, offset, count) if shape.by_row else k.load(f32, source).splat(LANES)
        decay = exp(k, logarithm)
        k.store(decay, decays, offset)
        k.store(decay * k.load(FLOATS, keys, offset), decayed, offset)


def _inverse_length(k: Kernel, source: Value, size: int) -> Value:
    def add_square(total: Value, offset: Value, count: int) -> Value:
        value = load_part(k, source, offset, count)
        return k.fma(value, value, total)

    return (1.0 / k.sqrt(sum_row(k, size, add_square) + _SMALL)).splat(LANES)


def _advance(k: Kernel, shape: DeltaShape, columns: _Columns, token: Value, head: Value, scale: float) -> None:
    """One token: what the decayed state knows of its value, then the new state and what the query reads from it."""
    decays, decayed, keys, queries = _vectors(k, shape)
    known, read = ([k.variable(k.zero(FLOATS)) for _ in range(shape.vectors)] for _ in range(2))
    with k.loop(0, shape.key_dim) as row:
        key = k.load(f32, decayed, row * 4).splat(LANES)
        for total, state in zip(known, columns.kept(row), strict=True):
            total.set(k.fma(key, state, total.value))
    beta = k.load(f32, k.pointer("beta") + token * shape.strides[4], head * 4).splat(LANES)
    values = columns.load(k.pointer("value") + token * shape.strides[2] + head * (4 * shape.value_dim))
    changes = [beta * (value - total.value) for value, total in zip(values, known, strict=True)]
    with k.loop(0, shape.key_dim) as row:
        decay, key, query = (k.load(f32, vector, row * 4).splat(LANES) for vector in (decays, keys, queries))
        states = [k.fma(key, change, decay * state) for change, state in zip(changes, columns.kept(row), strict=True)]
        columns.keep(states, row)
        for total, state in zip(read, states, strict=True):
            total.set(k.fma(query, state, total.value))
    result = k.pointer("y") + token * (4 * shape.value_heads * shape.value_dim) + head * (4 * shape.value_dim)
    columns.store([total.value * scale for total in read], result)


@lowers(ops.gated_delta_rule)
def lower_gated_delta_rule(b: ProgramBuilder, node: Node) -> None:
    operands: Any = node.operands[:5]
    _, key, value, decay, _ = operands
    views = dict(zip(_OPERANDS, (b.view(operand) for operand in operands), strict=True))
    shape = DeltaShape(
        *(key.shape[1], value.shape[1], key.shape[2], value.shape[2]),
        strides=tuple(view.stride for view in views.values()),
        by_row=len(decay.shape) == 3,
        tiled=node.attributes["key_heads"] == "tiled",
    )
    b.call(
        gated_delta_rule,
        sequence_count(b, node),
        {**views, "y": b.output(node.outputs[0]), **sequence_operands(b, node, 5)},
        grain=1,
        columns=shape.value_heads * shape.blocks,
        scratch=shape.scratch_bytes,
        shape=shape,
        scale=node.attributes["scale"],
        normalize=node.attributes["normalize"],
    )
