"""Attention over paged caches: the kernel, and how the op of the graph becomes a call of it."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

from modelhost.api.backend import Node
from modelhost.graph import ops
from modelhost_cpu.language.types import i32, i64, ptr
from modelhost_cpu.language.value import Value
from modelhost_cpu.native.kernel import Kernel
from modelhost_cpu.program.builder import ProgramBuilder
from modelhost_cpu.program.lowering import lowers
from modelhost_cpu.program.views import Slot, View

from .attention_context import Context
from .attention_matrix import MatrixProducts
from .attention_rows import Work
from .attention_shape import SPAN, AttentionShape
from .attention_tasks import (
    CONTEXT_END,
    CONTEXT_START,
    END_HEAD,
    END_PARTITION,
    FIELDS,
    FINISHED,
    FIRST_HEAD,
    FIRST_PARTITION,
    FIRST_ROW,
    OWNER,
    PARTITION,
    ROWS,
    SEQUENCE,
    STORED_ROW,
    STORED_ROWS,
    AttentionTasks,
    require_input,
)
from .attention_vectors import VectorProducts
from .cache_strips import CachedHead
from .write_cache import cache_operands, cache_shape

ALL = 1 << 30
"""A window larger than any context."""


@lowers(ops.attention)
def lower_attention(b: ProgramBuilder, node: Node) -> None:
    query, cache, table, starts, contexts, sinks, selected = node.operands
    call_attention(b, node, query, [(cache, table)], starts, contexts, sinks, selected)


@lowers(ops.compressed_attention)
def lower_compressed_attention(b: ProgramBuilder, node: Node) -> None:
    query, cache, compressed, table, other, starts, contexts, sinks, selected = node.operands
    call_attention(b, node, query, [(cache, table), (compressed, other)], starts, contexts, sinks, selected)


def call_attention(
    b: ProgramBuilder,
    node: Node,
    query: Any,
    caches: list[tuple[Any, Any]],
    starts: Any,
    contexts: Any,
    sinks: Any,
    selected: Any,
) -> None:
    """Append attention of the rows of ``query`` over caches with their block tables.

    ``selected`` are entries of the last one.
    """
    q = b.view(query)
    shapes = tuple(cache_shape(b, cache) for cache, _ in caches)
    shape = AttentionShape(
        shapes,
        query.shape[1] // shapes[0].kv_heads,
        q.stride,
        node.attributes["scale"],
        node.attributes.get("soft_cap"),
        0 if selected is None else selected.shape[1],
        b.target.has("amx-bf16") and not b.options.exact,
    )
    window = caches[0][0].spec.window
    tasks, work, stored = _tasks(b, shape, starts, contexts, window)
    operands: dict[str, Slot | View | None] = {
        "query": q,
        "output": b.output(node.outputs[0]),
        "starts": b.view(starts),
        "contexts": b.view(contexts),
        "tasks": tasks,
        "stored": stored,
        "window": Slot(offset=ALL if window is None else window),
        "sinks": None if sinks is None else b.values(sinks),
        "selected": None if selected is None else b.view(selected),
    }
    for index, (cache, table) in enumerate(caches):
        operands |= cache_operands(b, index, cache, table)
    detail = f"{shape.heads}/{shapes[0].kv_heads}x{shapes[0].key_dim}"
    b.call(attention, work, operands, grain=1, scratch=shape.scratch, detail=detail, shape=shape)


def _tasks(
    b: ProgramBuilder, shape: AttentionShape, starts: Any, contexts: Any, window: int | None
) -> tuple[Slot, Slot, View]:
    """The tasks of a step, how many they are, and memory for rows of partitions."""
    plan = AttentionTasks(
        require_input(b, starts),
        require_input(b, contexts),
        shape.cache.kv_heads,
        shape.group,
        window,
        shape.cache.stride,
        alone=shape.selected > 0,
        whole=len(shape.caches) > 1,
        threads=b.options.threads,
    )
    plan = b.shared(plan.name, lambda: plan)
    tasks, work = b.derive(f"{plan.name} tasks", plan.tasks)
    rows = f"{plan.name} rows"
    b.derive(rows, plan.stored_rows, most=plan.most_stored_rows)
    return tasks, work, b.temporary(rows, shape.stored_row)


def attention(k: Kernel, shape: AttentionShape) -> None:
    """Kernel: one task of :class:`AttentionTasks`."""
    k.raw.attributes.add("optsize")  # unrolled loops take twice as long to compile and are no faster
    task = k.pointer("tasks") + k.chunk * (FIELDS * 4)
    sequence, first, rows = (_field(k, task, field) for field in (SEQUENCE, FIRST_ROW, ROWS))
    start, end = (k.load(i32, k.pointer("starts") + sequence * 4, 4 * index).to(i64) for index in range(2))
    tokens = k.load(i32, k.pointer("contexts"), sequence * 4).to(i64)
    work = Work(k, shape, start, tokens - (end - start), first, rows)
    products = products_of(work)
    products.begin()
    with k.loop(_field(k, task, FIRST_HEAD), _field(k, task, END_HEAD)) as head:
        work.open_head(head, products.rows_at_once)
        products.pack_queries()
        work.clear()
        for index, cache in enumerate(shape.caches):
            table = k.pointer(f"table{index}") + sequence * k.number(f"width{index}") * 4
            addresses = k.pointer(f"keys{index}"), k.pointer(f"values{index}")
            cached = CachedHead(cache, *addresses, table, head, tokens // cache.stride)
            if index == 0:
                span = _field(k, task, FIRST_PARTITION), _field(k, task, END_PARTITION)
                _attend(work, products, cached, k.number("window"), span, task if len(shape.caches) == 1 else None)
            else:
                span = k.integer(0), (cached.entries + (PARTITION - 1)) // PARTITION
                _attend(work, products, cached, k.integer(ALL), span, None)
        done = _merge_stored(work, task) if len(shape.caches) == 1 else k.integer(1)
        with k.when(done > 0):
            work.finish()
    products.end()


def products_of(work: Work) -> MatrixProducts | VectorProducts:
    """How a kernel multiplies."""
    return MatrixProducts(work) if work.shape.matrix else VectorProducts(work)


def _field(k: Kernel, task: Value, field: int) -> Value:
    return k.load(i32, task, field * 4).to(i64)


def _attend(
    work: Work,
    products: MatrixProducts | VectorProducts,
    cached: CachedHead,
    window: Value,
    partitions: tuple[Value, Value],
    task: Value | None,
) -> None:
    """Add what the rows see in some partitions, or store it for the task that adds the results of several."""
    k, last = work.k, cached.shape is work.shape.caches[-1]
    with k.loop(*partitions) as partition:
        context = Context(work, products, cached, window, partition * PARTITION, work.shape.selected > 0 and last)
        if context.selected:
            token = work.start + work.first // work.shape.group
            context.flag(k.pointer("selected") + token * (work.shape.selected * 4), work.shape.selected)
        context.locate(context.spans(k.integer(0), work.rows))
        with work.row_blocks() as (first, count):
            _attend_block(context, first, count)
            _keep(work, None if task is None else _stored_place(work, task, partition), first, count)


def _keep(work: Work, place: Value | None, first: Value, count: Value) -> None:
    """Merge what a partition gave for a block of rows, or store it if there is a place for it."""
    if place is None:
        work.merge(first, count, work.part)
        return
    stored = place.to_integer() > 0
    with work.k.when(stored):
        work.store_part(place, first, count)
    with work.k.unless(stored):
        work.merge(first, count, work.part)


def _attend_block(context: Context, first: Value, count: Value) -> None:
    """Maxima, sums and values of a block of rows over a partition."""
    work, products, k = context.work, context.products, context.work.k
    spans = context.spans(first, count)
    with k.loop(*spans) as span, context.wanted(span):
        products.score(context.cached.shape, first, count, span)
    if work.prescaled:
        work.cap_scores(count, spans)
    with k.loop(*spans) as span, nullcontext() if context.selected else k.when(context.cut_off(first, count, span)):
        entry = context.first + span * SPAN
        work.hide(first, count, span, entry, context.cached.shape.stride, context.window, context.selected)
    work.weigh(count, spans, products.put_weights)
    products.add_values(count, spans, context.wanted)


def _stored_place(work: Work, task: Value, partition: Value) -> Value:
    """Where the result of a partition is stored; null if the task merges all partitions itself."""
    k = work.k
    rows = (work.rows + (STORED_ROWS - 1)) // STORED_ROWS * STORED_ROWS
    first = _field(k, task, STORED_ROW)
    row = first + (partition - _field(k, task, CONTEXT_START)) * rows
    return k.select(first >= 0, k.pointer("stored") + row * work.shape.stored_row, k.zero(ptr))


def _merge_stored(work: Work, task: Value) -> Value:
    """Merge all partitions if this task was the last one that stored some; whether all are merged."""
    k = work.k
    done = k.variable(k.integer(1))
    with k.when(_field(k, task, STORED_ROW) >= 0):
        counter = k.pointer("tasks") + _field(k, task, OWNER) * (FIELDS * 4)
        own = _field(k, task, END_PARTITION) - _field(k, task, FIRST_PARTITION)
        context = _field(k, task, CONTEXT_START), _field(k, task, CONTEXT_END)
        before = k.atomic_add(counter, FINISHED * 4, own.to(i32)).to(i64)
        complete = (before + own).equals(context[1] - context[0])
        done.set(complete.to(i64, unsigned=True))
        with k.when(complete):
            k.store(k.constant(i32, 0), counter, FINISHED * 4)
            with k.loop(*context) as partition, work.row_blocks() as (first, count):
                work.merge(first, count, work.stored(_stored_place(work, task, partition), first))
    return done.value
