"""Op cases of pooled tokens and of several residual streams. A part of :mod:`modelhost.testing.op_cases`."""

from __future__ import annotations

from collections.abc import Iterator

from modelhost.api.backend import CacheSpec, State, Tensor
from modelhost.graph import ops

from .op_cases import MIXED, OpCase, Operands, Outputs

_STRIDES = {"entries within a block": 2, "an entry of several blocks": 8}


def compressed_cases() -> Iterator[OpCase]:
    """Pooling, and attention over entries: with several in a block of the cache, and with a block for each."""
    for label, stride in _STRIDES.items():
        for parts in (1, 2):

            def pool(o: Operands, stride: int = stride, parts: int = parts) -> Outputs:
                return _pool(o, stride, parts, 5)

            yield OpCase(ops.pool_windows, f"{label}, {parts} parts", pool, MIXED)
        for heads, sinks, top_k in ((1, False, None), (3, True, None), (4, True, 3), (2, False, 100)):

            def attend(
                o: Operands, stride: int = stride, heads: int = heads, sinks: bool = sinks, top_k: int | None = top_k
            ) -> Outputs:
                return _attend(o, stride, heads, sinks, top_k)

            features = f"{', sinks' if sinks else ''}{f', {top_k} entries' if top_k else ''}"
            yield OpCase(ops.compressed_attention, f"{label}, {heads} heads{features}", attend, MIXED)

        def choose(o: Operands, stride: int = stride) -> Outputs:
            return _choose(o, stride, 3)

        yield OpCase(ops.index_top_k, label, choose, MIXED)


def stream_cases() -> Iterator[OpCase]:
    """Weights of streams and sums with them."""
    for streams, iterations in ((1, 1), (2, 3), (4, 20)):
        columns = streams * (2 + streams)

        def whole(o: Operands, streams: int = streams, iterations: int = iterations, columns: int = columns) -> Outputs:
            projected, factors, bias = o.activation(columns), o.parameter(3), o.parameter(columns)
            return ops.stream_weights(projected, factors, bias, streams=streams, iterations=iterations, eps=1e-6)

        def collapse(o: Operands, streams: int = streams) -> Outputs:
            factors, bias = o.parameter(1), o.parameter(streams)
            return ops.stream_weights(o.activation(streams), factors, bias, streams=streams, iterations=1, eps=1e-3)

        yield OpCase(ops.stream_weights, f"{streams} streams", whole)
        if streams > 1:
            yield OpCase(ops.stream_weights, f"{streams} streams, collapse only", collapse)
    for before, after in ((1, 4), (4, 1), (3, 3)):

        def mix(o: Operands, before: int = before, after: int = after) -> Outputs:
            return ops.mix_streams(o.activation(before, 7), o.activation(before, after))

        yield OpCase(ops.mix_streams, f"{before} to {after}", mix)


def _indices(o: Operands, cache: State) -> tuple[Tensor, Tensor, Tensor]:
    return o.step.block_table(cache), o.step.sequence_starts, o.step.context_lengths


def _pool(o: Operands, stride: int, parts: int, size: int) -> Tensor:
    width = parts * size
    cache = o.cache(CacheSpec(1, width, width, parts * stride))
    ops.write_cache(o.activation(1, width), o.activation(1, width), cache, o.step.slot_mapping(cache))
    return ops.pool_windows(o.step.positions, o.parameter(stride, width), cache, *_indices(o, cache), stride=stride)


def _entries(o: Operands, stride: int, size: int) -> State:
    """A cache of pooled tokens, this step's written."""
    cache = o.cache(CacheSpec(1, size, size, latent=True, stride=stride))
    ops.write_cache(o.activation(1, size), None, cache, o.step.slot_mapping(cache))
    return cache


def _choose(o: Operands, stride: int, top_k: int) -> Tensor:
    index = _entries(o, stride, 5)
    return ops.index_top_k(o.activation(9, 5), o.activation(9), index, *_indices(o, index), top_k=top_k)


def _attend(o: Operands, stride: int, heads: int, sinks: bool, top_k: int | None) -> Tensor:
    cache, step = o.cache(CacheSpec(1, 7, 7, 3, latent=True)), o.step
    ops.write_cache(o.activation(1, 7), None, cache, step.slot_mapping(cache))
    entries = _entries(o, stride, 7)
    selected = None if top_k is None else _choose(o, stride, top_k)
    sink = o.parameter(heads) if sinks else None
    tables = (step.block_table(cache), step.block_table(entries), step.sequence_starts, step.context_lengths)
    return ops.compressed_attention(o.activation(heads, 7), cache, entries, *tables, sink, selected, scale=0.6)
