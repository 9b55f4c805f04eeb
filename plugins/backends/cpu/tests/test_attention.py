"""Attention over paged caches against the NumPy reference, and that a token's result depends on nothing else."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from modelhost_cpu.caches import state_memory
from modelhost_cpu.machine import Isa, host_target

from modelhost.api import UnsupportedError
from modelhost.api.backend import CacheLayout, CacheSpec, DType, Parameter, State, Weight
from modelhost.testing.arrays import RandomWeights
from modelhost.testing.paged_steps import Chunk

from .attention_cases import (
    VOCABULARY,
    Layer,
    backend,
    compiled,
    cut,
    require_reference,
    require_same,
    rows,
    run,
    without_prompt,
)

DTYPES: tuple[DType, ...] = ("float32", "bfloat16")
LAYERS = {
    "blocks of 1": Layer(CacheSpec(2, 7, 5), group=3, block_size=1),
    "blocks of 4, odd sizes": Layer(CacheSpec(1, 33, 17), group=2, block_size=4),
    "blocks of 16, odd sizes": Layer(CacheSpec(2, 35, 19), group=3),
    "blocks of 32": Layer(CacheSpec(2, 32, 48), group=4, block_size=32),
    "blocks of 48": Layer(CacheSpec(1, 80, 80), group=7, block_size=48, context=672),
    "blocks of 12, sinks": Layer(CacheSpec(1, 16, 32), group=2, block_size=12, sinks=True),
    "many query heads": Layer(CacheSpec(1, 8, 8), group=130),
    "window across partitions": Layer(CacheSpec(1, 8, 8, window=300), group=2, sinks=True),
    "small window, soft cap": Layer(CacheSpec(2, 64, 64, window=5), group=3, soft_cap=1.5),
    "negative scale": Layer(CacheSpec(1, 8, 8), group=2, scale=-0.4),
    "latent": Layer(CacheSpec(1, 41, 33, latent=True), group=5),
    "latent, blocks of 4": Layer(CacheSpec(1, 64, 32, latent=True), group=17, block_size=4),
    "chosen positions": Layer(CacheSpec(1, 16, 16), group=3, sinks=True, chosen=21),
    "chosen positions of latents": Layer(CacheSpec(1, 24, 16, latent=True), group=3, sinks=True, chosen=3),
}
STEPS = (
    (Chunk(0, 0, 1),),
    (Chunk(1, 0, 333), Chunk(2, 0, 5)),
    (),
    (Chunk(0, 1, 2), Chunk(1, 333, 334), Chunk(2, 5, 77)),
    (Chunk(2, 77, 77), Chunk(1, 334, 530), Chunk(0, 2, 3)),
    (Chunk(0, 3, 4), Chunk(1, 530, 531), Chunk(2, 77, 78)),
)
"""Prompts and single tokens side by side, over several partitions of a context."""


def _older() -> list[Isa]:
    tiers: list[Isa] = []
    names: tuple[Isa, ...] = ("avx512", "avx2", "baseline")
    for isa in names:
        try:
            host_target().limited(isa)
        except UnsupportedError:
            continue
        tiers.append(isa)
    return tiers


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layer", LAYERS.values(), ids=LAYERS)
def test_reference(layer: Layer, dtype: DType) -> None:
    require_reference(layer.graph, layer.paging, backend(dtype), STEPS)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("isa", _older())
@pytest.mark.parametrize("name", ("blocks of 16, odd sizes", "latent, blocks of 4", "chosen positions"))
def test_older_cpus(name: str, isa: Isa, dtype: DType) -> None:
    layer = LAYERS[name]
    require_reference(layer.graph, layer.paging, backend(dtype, isa=isa), STEPS[:4])


SAME = {
    "blocks of 16": Layer(CacheSpec(2, 40, 24), group=3),
    "blocks of 32 and a window": Layer(CacheSpec(1, 32, 32, window=290), group=4, block_size=32),
    "latents and sinks": Layer(CacheSpec(1, 20, 16, latent=True), group=5, sinks=True),
}


@pytest.mark.parametrize("isa", ("auto", *_older()[:2]))
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layer", SAME.values(), ids=SAME)
def test_batches_and_chunks_change_nothing(layer: Layer, dtype: DType, isa: Isa) -> None:
    """A sequence in a mixed batch, alone, in one chunk and in others, on one thread and on three."""
    graph, paging = layer.graph(dtype), layer.paging
    mixed = rows(compiled(graph, paging, backend(dtype, 1, isa)), graph, paging, STEPS)
    for threads, places in ((1, (531,)), (2, (1, 256, 257, 530, 531)), (3, (40, *range(300, 531, 77), 531))):
        executable = compiled(graph, paging, backend(dtype, threads, isa))
        alone = rows(executable, graph, paging, cut(1, *places))
        require_same(alone, mixed, [place for place in mixed if place[0] == 1])


@pytest.mark.parametrize("dtype", DTYPES)
def test_contexts_cut_for_threads(dtype: DType) -> None:
    """Single tokens after a long context: only with several threads is the context cut."""
    layer = Layer(CacheSpec(1, 64, 64), group=4, context=2100, sequences=2)
    graph, paging = layer.graph(dtype), layer.paging
    steps = [(Chunk(0, 0, 2050), Chunk(1, 0, 300)), (Chunk(0, 2050, 2051), Chunk(1, 300, 301)), (Chunk(0, 2051, 2056),)]
    wanted = rows(compiled(graph, paging, backend(dtype, 1)), graph, paging, steps)
    for threads in (2, 3, 5):
        executable = compiled(graph, paging, backend(dtype, threads))
        require_same(rows(executable, graph, paging, steps), wanted, wanted)
        again = rows(executable, graph, paging, steps[1:])
        require_same(again, wanted, again)


@pytest.mark.parametrize("dtype", DTYPES)
def test_origin_of_tokens_changes_nothing(dtype: DType) -> None:
    """Prompt tokens and generated ones are computed alike."""
    layer = SAME["blocks of 16"]
    graph, paging = layer.graph(dtype), layer.paging
    executable = compiled(graph, paging, backend(dtype))
    prompt = rows(executable, graph, paging, cut(0, 39))
    require_same(rows(executable, graph, without_prompt(paging), cut(0, 39)), prompt, prompt)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("block_size", (4, 16, 32))
def test_entries_after_the_context_are_not_used(block_size: int, dtype: DType) -> None:
    """Blocks may hold NaN of a sequence that had them before."""
    layer = Layer(CacheSpec(1, 16, 16), group=2, block_size=block_size)
    graph, paging = layer.graph(dtype), layer.paging
    clean = rows(compiled(graph, paging, backend(dtype)), graph, paging, cut(0, 5, 21))
    executable = compiled(graph, paging, backend(dtype), _load_with_nan)
    spoiled = paging.inputs(graph, (Chunk(0, 0, 64),))
    results = executable.run({**spoiled, "token_ids": np.full(64, VOCABULARY - 1, np.int32)})
    assert np.isnan(results["y"]).all()
    after = rows(executable, graph, paging, cut(0, 5, 21))
    require_same(after, clean, clean)


def _load_with_nan(parameter: Parameter) -> Weight:
    """Random tables whose last row is NaN."""
    weight = RandomWeights()(parameter)
    values = weight.dequantize().copy()
    values[-1] = np.nan
    return replace(weight, blocks=values.view(np.uint8).reshape(weight.blocks.shape))


def test_no_sequences() -> None:
    layer = LAYERS["blocks of 32"]
    graph, paging = layer.graph("bfloat16"), layer.paging
    (result,) = run(compiled(graph, paging, backend("bfloat16")), graph, paging, [()])
    assert result.shape == (0, 8, 48)


@pytest.mark.parametrize("block_size", (1, 4, 16, 32))
@pytest.mark.parametrize("latent", (False, True))
def test_memory_of_caches(block_size: int, latent: bool) -> None:
    """As much as the engine plans for, and room that kernels may read beyond the end."""
    spec = CacheSpec(2, 6, 4, latent=latent)
    for dtype, item in (("float32", 4), ("bfloat16", 2)):
        parts = state_memory(State("cache", spec), CacheLayout(block_size, {"full": 7}), item)
        assert len(parts) == (1 if latent else 2)
        planned = 7 * block_size * spec.bytes_per_token(dtype)  # type: ignore[arg-type]
        assert planned <= sum(part.nbytes for part in parts) <= planned + 512
        assert not any(part.any() for part in parts)
