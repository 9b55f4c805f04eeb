"""Pooling the last tokens of a sequence into one entry (DeepSeek-V4, 2026)."""

from __future__ import annotations

from typing import Any

from modelhost.api.backend import Node
from modelhost.graph import ops
from modelhost_cpu.encodings.packing import ROWS, Packing, decode_columns, padded_columns
from modelhost_cpu.encodings.plain import Plain
from modelhost_cpu.language.convert import widen
from modelhost_cpu.language.math import exp
from modelhost_cpu.language.types import bf16, f32, i16, i32, i64
from modelhost_cpu.language.value import Value
from modelhost_cpu.language.vectors import FLOATS, each_vector, load_part, store_part
from modelhost_cpu.native.kernel import Kernel
from modelhost_cpu.program.builder import ProgramBuilder
from modelhost_cpu.program.lowering import lowers
from modelhost_cpu.program.views import Slot
from modelhost_cpu.weights import group_bytes

from .attention_tasks import token_sequences
from .cache_layout import CELL, LINE, STRIP, CacheShape
from .cache_strips import CachedHead
from .write_cache import cache_operands, cache_shape

_GRAIN = 8
_LOWEST = -3e38


@lowers(ops.pool_windows)
def lower_pool_windows(b: ProgramBuilder, node: Node) -> None:
    operands: Any = node.operands
    positions, bias, cache, table, starts, contexts = operands
    shape, stride = cache_shape(b, cache), node.attributes["stride"]
    stored = b.parameter(bias)
    packing: Packing = stored.packing if stored is not None and stored.packing is not None else Plain("f32")
    entries, width = cache.spec.window, stride * shape.key_dim // cache.spec.window
    groups = -(-stride // ROWS) * padded_columns(packing, shape.key_dim) * (4 * ROWS)
    b.call(
        pool_windows,
        b.view(positions).rows,
        {
            "positions": b.view(positions),
            "bias": Slot(offset=stored.address if stored is not None else 0),
            "sequences": token_sequences(b, starts),
            "contexts": b.view(contexts),
            "output": b.output(node.outputs[0]),
            **cache_operands(b, 0, cache, table),
        },
        grain=_GRAIN,
        scratch=groups + 2 * entries * (width + STRIP) * 4,
        cache=shape,
        packing=packing,
        stride=stride,
        window=entries,
    )


def pool_windows(k: Kernel, cache: CacheShape, packing: Packing, stride: int, window: int) -> None:
    """Kernel: the entry that is complete with each token, or zeros.

    Slots: ``positions``, ``bias``, ``sequences`` (the sequence of every token), ``contexts``, ``output``, and those of
    the cache.
    """
    width = stride * cache.key_dim // window
    first, last = k.span(k.chunk, _GRAIN)
    with k.loop(first, last) as token:
        end = k.load(i32, k.pointer("positions"), token * 4).to(i64) + 1
        complete = (end % stride).equals(0)
        target = k.pointer("output") + token * (4 * width)
        with k.unless(complete):
            for offset, count in each_vector(k, width):
                store_part(k, k.zero(FLOATS), target, offset, count)
        with k.when(complete):
            sequence = k.load(i32, k.pointer("sequences"), token * 4).to(i64)
            table = k.pointer("table0") + sequence * k.number("width0") * 4
            tokens = k.load(i32, k.pointer("contexts"), sequence * 4).to(i64)
            head = CachedHead(cache, k.pointer("keys0"), k.pointer("values0"), table, k.integer(0), tokens)
            _pool(k, _Window(k, head, packing, stride, window, width), end, target)


class _Window:
    """The tokens that one entry is made of, and where their parts are brought together: ``[tokens, width]``."""

    def __init__(self, k: Kernel, head: CachedHead, packing: Packing, stride: int, window: int, width: int) -> None:
        self.k, self.head, self.packing = k, head, packing
        self.stride, self.window, self.width = stride, window, width
        self._columns = padded_columns(packing, head.shape.key_dim) * (4 * ROWS)
        self.row = (width + STRIP) * 4
        self.gates = k.scratch + -(-stride // ROWS) * self._columns
        self.values = self.gates + window * self.row

    def decode_bias(self) -> None:
        """The position bias as ``[stride / 16, columns, 16] f32``."""
        k, columns = self.k, self.head.shape.key_dim
        with k.loop(0, -(-self.stride // ROWS)) as group:
            source = k.pointer("bias") + group * group_bytes(self.packing, columns)
            decode_columns(k, self.packing, source, columns, k.scratch + group * self._columns)

    def gather(self, start: Value, end: Value) -> None:
        """Bring the parts of tokens ``start .. end - 1`` together that belong to the entry."""
        k, stride = self.k, self.stride
        missing = (self.window - (end - start)) // stride
        with k.loop(start, end) as token, k.loop(0, self.width) as index:
            number = ((token - start) // stride + missing) * self.width + index
            inner = token % stride
            bias = k.scratch + inner // ROWS * self._columns + number * (4 * ROWS) + inner % ROWS * 4
            place = (token - start) * self.row + index * 4
            value, gate = _key_and_value(k, self.head, token, number)
            k.store(gate + k.load(f32, bias), self.gates + place)
            k.store(value, self.values + place)


def _pool(k: Kernel, window: _Window, end: Value, target: Value) -> None:
    start = k.maximum(end - window.window, k.integer(0))
    window.decode_bias()
    window.gather(start, end)
    for offset, count in each_vector(k, window.width):
        highest = k.variable(k.constant(FLOATS, _LOWEST))
        with k.loop(0, (end - start) * window.row, window.row) as row:
            highest.set(k.maximum(load_part(k, window.gates + row, offset, count), highest.value))
        total, mixed = k.variable(k.zero(FLOATS)), k.variable(k.zero(FLOATS))
        with k.loop(0, (end - start) * window.row, window.row) as row:
            weight = exp(k, load_part(k, window.gates + row, offset, count) - highest.value)
            total.add(weight)
            mixed.set(k.fma(weight, load_part(k, window.values + row, offset, count), mixed.value))
        store_part(k, mixed.value / total.value, target, offset, count)


def _key_and_value(k: Kernel, head: CachedHead, entry: Value, index: Value) -> tuple[Value, Value]:
    """One number of an entry's key and of its value, ``f32``."""
    shape = head.shape
    block, inner = head.block(k, entry // shape.entries), entry % shape.entries
    keys, values = head.keys + block * shape.key_block, head.values + block * shape.value_block
    per_cell = CELL // shape.item
    if shape.stripped:
        keys += inner // STRIP * shape.key_strip + index // per_cell * LINE + inner % STRIP * CELL
        keys += index % per_cell * shape.item
        values += inner // per_cell * shape.value_line + index * CELL + inner % per_cell * shape.item
    else:
        keys += inner * (shape.key_cells * CELL) + index * shape.item
        values += inner * (shape.cells(shape.value_dim) * CELL) + index * shape.item
    if shape.paired:
        return widen(k, k.load(i16, keys), bf16), widen(k, k.load(i16, values), bf16)
    return k.load(f32, keys), k.load(f32, values)
