"""A compiled graph: one native call for each step."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import numpy as np

from modelhost.api.backend import CacheLayout, Graph, Parameter, Weight, bind_symbols, evaluate

from .caches import state_memory
from .native.pool import aligned_bytes
from .program.builder import Options, ProgramBuilder
from .program.image import ProgramImage
from .program.lowering import lowerings
from .program.views import View, arena
from .weights import WeightStore

if TYPE_CHECKING:
    import numpy.typing as npt

    from .native.compiler import Compiler
    from .native.pool import ThreadPool

    Int = npt.NDArray[np.int32]
    Float = npt.NDArray[np.float32]


class CpuExecutable:
    """The program of a graph with its weights, caches and arena."""

    def __init__(
        self,
        graph: Graph,
        load: Callable[[Parameter], Weight],
        cache: CacheLayout,
        compiler: Compiler,
        pool: ThreadPool,
        options: Options,
    ) -> None:
        self._graph = graph
        store = WeightStore(compiler, pool, options.exact)
        self._weights = {name: store.store(p, load(p)) for name, p in graph.parameters.items()}
        item_bytes = 4 if options.exact else 2
        self._states = {name: state_memory(state, cache, item_bytes) for name, state in graph.states.items()}
        addresses = {name: tuple(part.ctypes.data for part in parts) for name, parts in self._states.items()}
        self._program = ProgramBuilder(graph, options, self._weights, addresses).build(lowerings())
        self._image = ProgramImage(self._program, compiler.kernels(call.spec for call in self._program.calls))
        pool.reserve_scratch(self._program.scratch_bytes)
        self._pool = pool
        self._arena = aligned_bytes(0)

    @property
    def weight_bytes(self) -> int:
        """Bytes that the loaded weights take."""
        return sum(weight.nbytes for weight in self._weights.values())

    def run(self, inputs: Mapping[str, Int]) -> dict[str, Float]:
        """Run one step; see :class:`modelhost.api.backend.Executable`."""
        arrays = {name: np.ascontiguousarray(array, np.int32) for name, array in inputs.items()}
        sizes = bind_symbols(self._graph, arrays)
        derived = {name: make(arrays) for name, make in self._program.derived.items()}
        sizes |= {name: len(array) for name, array in derived.items()}
        bases = {f"input.{name}": array.ctypes.data for name, array in arrays.items()}
        bases |= {f"derived.{name}": array.ctypes.data for name, array in derived.items()}
        bases |= self._arena_bases(sizes)
        self._execute(bases, sizes)
        return {name: self._result(name, view, bases, sizes, arrays) for name, view in self._program.outputs.items()}

    def _execute(self, bases: Mapping[str, int], sizes: Mapping[str, int]) -> None:
        image = self._image
        base_values = np.array([bases[name] if name else 0 for name in image.bases], np.int64)
        size_values = np.array([sizes[name] if name else 0 for name in image.sizes], np.int64)
        self._pool.run(image.ops, image.recipes, image.slots, base_values, size_values)

    def _arena_bases(self, sizes: Mapping[str, int]) -> dict[str, int]:
        """The part of the arena of every symbol; the arena grows with the largest step."""
        needed = {symbol: unit * sizes[symbol] for symbol, unit in self._program.unit_bytes.items()}
        total = sum(needed.values())
        if total > self._arena.nbytes:
            self._arena = aligned_bytes(total)
        bases, position = {}, self._arena.ctypes.data
        for symbol, nbytes in needed.items():
            bases[arena(symbol)] = position
            position += nbytes
        return bases

    def _result(
        self, name: str, view: View, bases: Mapping[str, int], sizes: Mapping[str, int], arrays: Mapping[str, Int]
    ) -> Float:
        """A copy of an output, float32 in the shape that the graph says."""
        tensor = self._graph.outputs[name]
        shape = tuple(evaluate(dim, sizes) for dim in tensor.shape)
        rows = shape[0] if shape else 1
        slot = view.slot
        if slot.base.startswith("input."):
            return arrays[slot.base.removeprefix("input.")].reshape(shape).astype(np.float32)
        start = bases[slot.base] - self._arena.ctypes.data + sizes[slot.size] * slot.scale + slot.offset
        strides = (view.stride, 4)
        kind = np.int32 if view.dtype == "int32" else np.float32
        values = np.ndarray((rows, view.columns), kind, self._arena.data, start, strides) if rows else np.empty(shape)
        return np.array(values, np.float32).reshape(shape)
