"""Choosing entries, pooling tokens and attending to entries that stand for several tokens."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest
from modelhost_cpu.machine import Isa

from modelhost.api.backend import CacheSpec, DType, Graph, State, Tensor
from modelhost.graph import ops
from modelhost.testing.graphs import tracing
from modelhost.testing.op_cases import Operands
from modelhost.testing.paged_steps import Chunk, PagedSteps

from .attention_cases import VOCABULARY, backend, compiled, cut, require_reference, require_same, rows

DTYPES: tuple[DType, ...] = ("float32", "bfloat16")
STEPS = (
    (Chunk(0, 0, 1), Chunk(2, 0, 9)),
    (Chunk(1, 0, 600), Chunk(0, 1, 3)),
    (Chunk(1, 600, 601), Chunk(2, 9, 70), Chunk(0, 3, 4)),
    (Chunk(1, 601, 640), Chunk(0, 4, 5)),
)


@dataclass(frozen=True)
class Layer:
    """What is made of a step, over a paged cache."""

    build: Callable[[Operands], Tensor]
    block_size: int = 16

    @property
    def paging(self) -> PagedSteps:
        return PagedSteps(3, 640, self.block_size, VOCABULARY, prompt=40)

    def graph(self, dtype: DType) -> Graph:
        graph = Graph("sparse")
        with tracing(graph):
            graph.outputs["y"] = self.build(Operands(graph, dtype))
        return graph


def _indices(o: Operands, cache: State) -> tuple[Tensor, Tensor, Tensor]:
    return o.step.block_table(cache), o.step.sequence_starts, o.step.context_lengths


def _latents(o: Operands, size: int, stride: int = 1, window: int | None = None) -> State:
    cache = o.cache(CacheSpec(1, size, size, window, latent=True, stride=stride))
    ops.write_cache(o.activation(1, size), None, cache, o.step.slot_mapping(cache))
    return cache


def _choose(top_k: int, heads: int = 4, size: int = 6, stride: int = 1, window: int | None = None) -> Layer:
    def build(o: Operands) -> Tensor:
        cache = _latents(o, size, stride, window)
        return ops.index_top_k(o.activation(heads, size), o.activation(heads), cache, *_indices(o, cache), top_k=top_k)

    return Layer(build)


CHOICES = {
    "the best one": _choose(1),
    "seven": _choose(7),
    "as many as fit": _choose(400),
    "more than there are": _choose(1000),
    "many heads": _choose(20, heads=140, size=33),
    "entries of four tokens": _choose(5, stride=4),
    "a window": _choose(12, window=301),
}


@pytest.mark.parametrize("layer", CHOICES.values(), ids=CHOICES)
def test_index_top_k(layer: Layer) -> None:
    """Exactly the reference's choice. There are 64 different keys, so that most scores occur many times."""
    require_reference(layer.graph, layer.paging, backend("float32"), STEPS)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("threads", (1, 3))
def test_choices_do_not_depend_on_batches(threads: int, dtype: DType) -> None:
    layer = CHOICES["many heads"]
    graph, paging = layer.graph(dtype), layer.paging
    mixed = rows(compiled(graph, paging, backend(dtype, 2)), graph, paging, STEPS)
    alone = rows(compiled(graph, paging, backend(dtype, threads)), graph, paging, cut(1, 1, 300, 640))
    require_same(alone, mixed, alone)


def _pool(size: int, stride: int, parts: int, block_size: int = 16) -> Layer:
    def build(o: Operands) -> Tensor:
        width = parts * size
        cache = o.cache(CacheSpec(1, width, width, parts * stride))
        ops.write_cache(o.activation(1, width), o.activation(1, width), cache, o.step.slot_mapping(cache))
        return ops.pool_windows(o.step.positions, o.parameter(stride, width), cache, *_indices(o, cache), stride=stride)

    return Layer(build, block_size)


POOLS = {
    "pairs": _pool(5, 4, 2),
    "long windows": _pool(19, 128, 1),
    "windows over windows": _pool(33, 32, 2),
    "small blocks": _pool(16, 8, 2, block_size=4),
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layer", POOLS.values(), ids=POOLS)
def test_pool_windows(layer: Layer, dtype: DType) -> None:
    require_reference(layer.graph, layer.paging, backend(dtype), STEPS)


def _compressed(heads: int, size: int, stride: int, top_k: int | None, block_size: int = 16) -> Layer:
    def build(o: Operands) -> Tensor:
        recent, entries = _latents(o, size, window=70), _latents(o, size, stride)
        selected = None
        if top_k is not None:
            query = o.activation(3, size)
            selected = ops.index_top_k(query, o.activation(3), entries, *_indices(o, entries), top_k=top_k)
        tables = o.step.block_table(recent), *_indices(o, entries)
        return ops.compressed_attention(
            o.activation(heads, size), recent, entries, *tables, o.parameter(heads), selected, scale=0.3
        )

    return Layer(build, block_size)


COMPRESSED = {
    "all entries": _compressed(5, 24, 2, None),
    "all entries, blocks of 64": _compressed(20, 24, 4, None, block_size=64),
    "chosen entries": _compressed(3, 7, 2, 9),
    "entries of several blocks": _compressed(130, 40, 32, None),
}


@pytest.mark.parametrize("layer", COMPRESSED.values(), ids=COMPRESSED)
def test_compressed_attention(layer: Layer) -> None:
    require_reference(layer.graph, layer.paging, backend("float32"), STEPS)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("isa", ("auto", "baseline"))
def test_compressed_attention_alone_and_in_a_batch(isa: Isa, dtype: DType) -> None:
    layer = COMPRESSED["all entries"]
    graph, paging = layer.graph(dtype), layer.paging
    mixed = rows(compiled(graph, paging, backend(dtype, 2, isa)), graph, paging, STEPS)
    alone = rows(compiled(graph, paging, backend(dtype, 1, isa)), graph, paging, cut(1, 255, 256, 640))
    require_same(alone, mixed, alone)
