"""Graphs of one attention layer with its cache, and steps of sequences to run them with."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from modelhost_cpu.backend import CpuBackend
from modelhost_cpu.machine import Isa
from modelhost_cpu.settings import CpuSettings

from modelhost.api.backend import CacheSpec, DType, Executable, Graph, Parameter, Tensor
from modelhost.api.reference import ReferenceBackend
from modelhost.graph import ops
from modelhost.testing.arrays import RandomWeights, require_close
from modelhost.testing.backend import TOLERANCES
from modelhost.testing.graphs import lower, tracing
from modelhost.testing.op_cases import Operands
from modelhost.testing.paged_steps import Chunk, PagedSteps

Float = npt.NDArray[np.float32]
Steps = Sequence[tuple[Chunk, ...]]
Load = Callable[[Parameter], Any]
VOCABULARY = 64
"""Rows of tables; no token has the last one."""


@dataclass(frozen=True)
class Layer:
    """Attention of ``group`` query heads for each key/value head.

    Attributes:
        chosen: positions that a token may see, a column of random numbers for each; 0 for all.
    """

    spec: CacheSpec
    group: int = 1
    soft_cap: float | None = None
    scale: float = 0.4
    sinks: bool = False
    chosen: int = 0
    block_size: int = 16
    context: int = 640
    sequences: int = 3

    @cached_property
    def paging(self) -> PagedSteps:
        return PagedSteps(self.sequences, self.context, self.block_size, VOCABULARY - 1, prompt=40)

    def graph(self, dtype: DType) -> Graph:
        graph, spec = Graph("attention"), self.spec
        with tracing(graph):
            o = Operands(graph, dtype)
            step, cache = o.step, o.cache(spec)
            values = None if spec.latent else o.activation(spec.kv_heads, spec.value_dim)
            ops.write_cache(o.activation(spec.kv_heads, spec.key_dim), values, cache, step.slot_mapping(cache))
            heads = spec.kv_heads * self.group
            indices = (step.block_table(cache), step.sequence_starts, step.context_lengths)
            sinks = o.parameter(heads) if self.sinks else None
            query = o.activation(heads, spec.key_dim)
            caps = {"scale": self.scale, "soft_cap": self.soft_cap}
            graph.outputs["y"] = ops.attention(query, cache, *indices, sinks, self._chosen(step.token_ids), **caps)
        return graph

    def _chosen(self, token_ids: Tensor) -> Tensor | None:
        if not self.chosen:
            return None
        return ops.take_rows(Parameter((VOCABULARY, self.chosen), dtype="int32", name="chosen"), token_ids)


def backend(dtype: DType, threads: int = 2, isa: Isa = "auto", **settings: Any) -> CpuBackend:
    return CpuBackend(dtype=dtype, settings=CpuSettings(threads=threads, isa=isa, **settings))


def compiled(graph: Graph, paging: PagedSteps, cpu: CpuBackend, load: Load | None = None) -> Executable:
    lowered = lower(graph, native=cpu.native, backend=cpu.name)
    return cpu.compile(lowered, load or RandomWeights(), paging.layout(graph))


def run(executable: Executable, graph: Graph, paging: PagedSteps, steps: Steps) -> list[Float]:
    """The output ``y`` of every step."""
    return [executable.run(paging.inputs(graph, chunks))["y"] for chunks in steps]


def rows(executable: Executable, graph: Graph, paging: PagedSteps, steps: Steps) -> dict[tuple[int, int], Float]:
    """The output ``y`` of every token, by sequence and position."""
    results: dict[tuple[int, int], Float] = {}
    for chunks, values in zip(steps, run(executable, graph, paging, steps), strict=True):
        places = [(chunk.sequence, position) for chunk in chunks for position in range(chunk.start, chunk.end)]
        results |= zip(places, values, strict=True)
    return results


def require_reference(graph: Callable[[DType], Graph], paging: PagedSteps, cpu: CpuBackend, steps: Steps) -> None:
    """Compare with the NumPy kernels."""
    own, wanted = graph(cpu.dtype), graph("float32")
    reference = ReferenceBackend().compile(wanted, RandomWeights(), paging.layout(wanted))
    mine = run(compiled(own, paging, cpu), own, paging, steps)
    theirs = run(reference, wanted, paging, steps)
    for index, (got, expected) in enumerate(zip(mine, theirs, strict=True)):
        require_close({"y": got}, {"y": expected}, TOLERANCES[cpu.dtype], f"step {index}")


def require_same(
    got: dict[tuple[int, int], Float], wanted: dict[tuple[int, int], Float], places: Iterable[tuple[int, int]]
) -> None:
    """Compare bit by bit."""
    different = [place for place in places if got[place].tobytes() != wanted[place].tobytes()]
    assert not different


def cut(sequence: int, *places: int) -> list[tuple[Chunk, ...]]:
    """Steps of one sequence that end at ``places``."""
    starts = (0, *places[:-1])
    return [(Chunk(sequence, start, end),) for start, end in zip(starts, places, strict=True)]


def without_prompt(paging: PagedSteps) -> PagedSteps:
    """The same sequences, all of whose tokens count as generated."""
    return replace(paging, prompt=0)
