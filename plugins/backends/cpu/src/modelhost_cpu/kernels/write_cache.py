"""Storing keys and values in the paged caches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from modelhost.api.backend import Node
from modelhost.graph import ops
from modelhost_cpu.language.convert import narrow
from modelhost_cpu.language.function import Function
from modelhost_cpu.language.types import bf16, i16, i32, i64, lanes_of, vector, void
from modelhost_cpu.language.value import Value
from modelhost_cpu.language.vectors import LANES, each_vector, load_part
from modelhost_cpu.native.kernel import Kernel
from modelhost_cpu.program.builder import ProgramBuilder
from modelhost_cpu.program.lowering import lowers
from modelhost_cpu.program.views import Slot, View, rows_of

from .cache_layout import CELL, LINE, STRIP, CacheShape

_GRAIN_ELEMENTS = 8192


@lowers(ops.write_cache)
def lower_write_cache(b: ProgramBuilder, node: Node) -> None:
    key, value, cache, slot_mapping = node.operands
    cached: Any = cache
    views = [b.view(operand) if operand is not None else None for operand in (key, value)]  # type: ignore[arg-type]
    shape = cache_shape(b, cached)
    memory = b.state(cached)
    grain = max(1, _GRAIN_ELEMENTS // sum(view.columns for view in views if view is not None))
    slots: Any = slot_mapping
    b.call(
        write_cache,
        b.view(slots).rows,
        {
            "key": views[0],
            "value": views[1],
            "keys": memory[0],
            "values": None if shape.latent else memory[1],
            "slot_mapping": b.view(slots),
        },
        grain=grain,
        cache=shape,
        strides=tuple(view.stride for view in views if view is not None),
        row_grain=grain,
    )


def cache_shape(b: ProgramBuilder, cache: Any) -> CacheShape:
    """The layout of a state that is a paged cache."""
    return CacheShape.of(cache.spec, b.options.block_size, 4 if b.options.exact else 2)


def cache_operands(b: ProgramBuilder, index: int, cache: Any, table: Any) -> Mapping[str, Slot | View]:
    """The slots of a cache that is read: its memory, the table of blocks and the width of that."""
    keys, *values = b.state(cache)
    width = table.shape[1]
    return {
        f"keys{index}": keys,
        f"values{index}": keys if not values else values[0],
        f"table{index}": b.view(table),
        f"width{index}": Slot(offset=width) if isinstance(width, int) else rows_of(width.name, width.scale),
    }


def write_cache(k: Kernel, cache: CacheShape, strides: tuple[int, ...], row_grain: int) -> None:
    """Kernel: put the key and the value of every token in its slot.

    Slots: ``key`` and ``keys``, ``value`` and ``values`` unless the cache is latent, ``slot_mapping``.
    """
    first, last = k.span(k.chunk, row_grain)
    slots = k.pointer("slot_mapping")
    with k.loop(first, last) as token:
        slot = k.load(i32, slots, token * 4).to(i64)
        block, entry = slot // cache.entries, slot % cache.entries
        with k.loop(0, cache.kv_heads) as head:
            place = block * cache.kv_heads + head
            source = k.pointer("key") + token * strides[0] + head * (4 * cache.key_dim)
            _write_key(k, cache, source, k.pointer("keys") + place * cache.key_block, entry)
            if not cache.latent:
                source = k.pointer("value") + token * strides[1] + head * (4 * cache.value_dim)
                _write_value(k, cache, source, k.pointer("values") + place * cache.value_block, entry)


def _write_key(k: Function, cache: CacheShape, source: Value, block: Value, entry: Value) -> None:
    if cache.stripped:
        _write_column(k, cache, source, block + entry // STRIP * cache.key_strip + entry % STRIP * CELL)
    else:
        _write_row(k, cache, source, block + entry * (cache.key_cells * CELL), cache.key_dim)


def _write_value(k: Function, cache: CacheShape, source: Value, block: Value, entry: Value) -> None:
    if not cache.stripped:
        _write_row(k, cache, source, block + entry * (cache.cells(cache.value_dim) * CELL), cache.value_dim)
    elif not cache.paired:
        _write_row(k, cache, source, block + entry * cache.value_line, cache.value_dim)
    else:
        line = block + entry // 2 * cache.value_line
        for parity in range(2):
            with k.when((entry % 2).equals(parity)):
                _write_halves(k, source, line, cache.value_dim, parity)


def stored_cells(k: Function, numbers: Value, paired: bool) -> Value:
    """The cells of sixteen float32 numbers."""
    if paired:
        return narrow(k, numbers, bf16).bits(vector(i32, LANES // 2))
    return numbers.bits(vector(i32, LANES))


def _write_column(k: Function, cache: CacheShape, source: Value, target: Value) -> None:
    """A key into one column of the lines of a strip."""
    for offset, count in each_vector(k, cache.key_dim):
        cells = stored_cells(k, load_part(k, source, offset, count), cache.paired)
        line = target + offset * (cache.item * LINE // (CELL * CELL))
        for index in range(cache.cells(count)):
            k.store(cells.lane(index), line, index * LINE)


def _write_row(k: Function, cache: CacheShape, source: Value, target: Value, numbers: int) -> None:
    """Numbers one after the other, the last cell filled up with a zero."""
    for offset, count in each_vector(k, numbers):
        cells = stored_cells(k, load_part(k, source, offset, count), cache.paired)
        place = target + offset * cache.item // CELL
        if count == LANES:
            k.store(cells, place)
        else:
            _store_first(k, cells, place, cache.cells(count))


def _store_first(k: Function, cells: Value, place: Value, count: int) -> None:
    for index in range(min(count, lanes_of(cells.type))):
        k.store(cells.lane(index), place, index * CELL)


def _write_halves(k: Function, source: Value, line: Value, numbers: int, parity: int) -> None:
    """A value as bfloat16 into the lower or the upper halves of a line; the other halves belong to another token."""
    halves = vector(i16, 2 * LANES)
    for offset, count in each_vector(k, numbers):
        cells = narrow(k, load_part(k, source, offset, count), bf16).to(i32, unsigned=True) << (16 * parity)
        wanted = k.vector(i16, [int(lane % 2 == parity and lane // 2 < count) for lane in range(2 * LANES)])
        name = "llvm.masked.store.v32i16.p0"
        k.call(name, void, cells.bits(halves), line + offset, k.constant(i32, 1), wanted > 0)
