"""A compiled graph: one native call for each step."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from modelhost.api.backend import CacheLayout, Graph, OpTime, Parameter, Weight, bind_symbols, evaluate

from .caches import state_memory
from .logits import CpuLogitOps
from .native.memory import aligned_bytes
from .program.builder import Call, Options, ProgramBuilder
from .program.image import ProgramImage
from .program.lowering import lowerings
from .program.views import View, arena, output_base
from .weights import WeightStore

if TYPE_CHECKING:
    import numpy.typing as npt

    from .native.compiler import Compiler
    from .native.pool import ThreadPool

    Int = npt.NDArray[np.int32]
    Float = npt.NDArray[np.float32]
    Long = npt.NDArray[np.int64]


class CpuExecutable(CpuLogitOps):
    """The program of a graph with its weights, caches and arena.

    It implements ``ProfiledExecutable`` and ``SamplingExecutable`` of :mod:`modelhost.api.backend`.

    Args:
        graph: of ops that have a lowering.
        load: returns the weight of a parameter.
        cache: the number of blocks of every group of caches.
        compiler: of the kernels.
        pool: that steps run on.
        options: what the program is built for.
    """

    def __init__(
        self,
        graph: Graph,
        load: Callable[[Parameter], Weight],
        cache: CacheLayout,
        compiler: Compiler,
        pool: ThreadPool,
        options: Options,
    ) -> None:
        super().__init__(compiler, pool)
        self._graph = graph
        store = WeightStore(compiler, pool, options.exact)
        self._weights = {name: store.store(p, load(p)) for name, p in graph.parameters.items()}
        item_bytes = 4 if options.exact else 2
        self._states = {name: state_memory(state, cache, item_bytes) for name, state in graph.states.items()}
        addresses = {name: tuple(part.ctypes.data for part in parts) for name, parts in self._states.items()}
        self._program = ProgramBuilder(graph, options, self._weights, addresses).build(lowerings())
        self._image = ProgramImage(self._program, compiler.kernels(call.spec for call in self._program.calls))
        pool.reserve_scratch(self._program.scratch_bytes)
        self._arena = aligned_bytes(0)

    @property
    def weight_bytes(self) -> int:
        """Bytes that the loaded weights take."""
        return sum(weight.nbytes for weight in self._weights.values())

    def run(self, inputs: Mapping[str, Int]) -> dict[str, Float]:
        """Run one step; see :class:`modelhost.api.backend.Executable`."""
        step = _Step(self, inputs)
        step.execute()
        return step.results()

    def profile(self, inputs: Mapping[str, Int]) -> Sequence[OpTime]:
        """Run one step and time its calls; see :class:`modelhost.api.backend.ProfiledExecutable`."""
        step = _Step(self, inputs)
        times = np.zeros(len(self._program.calls) + 1, np.int64)
        start = time.perf_counter()
        step.execute(times)
        seconds_per_cycle = (time.perf_counter() - start) / max(1, int(times[-1] - times[0]))
        seconds = np.diff(times) * seconds_per_cycle
        calls = zip(self._program.calls, self._image.work().tolist(), seconds.tolist(), strict=True)
        return [
            OpTime(call.label[0], _detail(call), 1, spent, call.weight_bytes) for call, work, spent in calls if work
        ]


def _detail(call: Call) -> str:
    """The kernel of a call and what it works on."""
    return f"{call.spec.emit.__name__} {call.label[1]}".strip()


class _Step:
    """One run of an executable: its addresses and sizes."""

    def __init__(self, executable: CpuExecutable, inputs: Mapping[str, Int]) -> None:
        self._program, self._image = executable._program, executable._image
        self._pool, self._graph = executable._pool, executable._graph
        self._arrays = {name: np.ascontiguousarray(array, np.int32) for name, array in inputs.items()}
        self._sizes = bind_symbols(self._graph, self._arrays)
        derived = {name: make(self._arrays) for name, make in self._program.derived.items()}
        self._sizes |= {name: len(array) for name, array in derived.items()}
        self._arrays |= {f"derived.{name}": array for name, array in derived.items()}
        self._bases = self._arena_bases(executable)
        self._owned = {
            name: np.empty(self._shape(name), np.float32)
            for name, view in self._program.outputs.items()
            if view.slot.base == output_base(name)
        }
        self._bases |= {output_base(name): array.ctypes.data for name, array in self._owned.items()}

    def _arena_bases(self, executable: CpuExecutable) -> dict[str, int]:
        """Start of the part of the arena of every symbol; the arena grows with the largest step."""
        needed = {symbol: unit * self._sizes[symbol] for symbol, unit in self._program.unit_bytes.items()}
        total = sum(needed.values())
        if total > executable._arena.nbytes:
            executable._arena = aligned_bytes(total)
        self._arena = executable._arena
        bases, position = {}, self._arena.ctypes.data
        for symbol, nbytes in needed.items():
            bases[arena(symbol)] = position
            position += nbytes
        return bases

    def execute(self, times: Long | None = None) -> None:
        """Run it."""
        image = self._image
        bases: Long = np.array([self._address(name) for name in image.bases], np.int64)
        sizes: Long = np.array([self._sizes[name] if name else 0 for name in image.sizes], np.int64)
        self._pool.run(image.ops, image.recipes, image.slots, bases, sizes, times)

    def _address(self, base: str) -> int:
        if not base:
            return 0
        known = self._bases.get(base)
        return self._arrays[base.removeprefix("input.")].ctypes.data if known is None else known

    def results(self) -> dict[str, Float]:
        """The outputs, float32 in the shapes that the graph says, in memory that no later step writes to."""
        copied = {name: view for name, view in self._program.outputs.items() if name not in self._owned}
        return self._owned | {name: self._copy(name, view) for name, view in copied.items()}

    def _shape(self, name: str) -> tuple[int, ...]:
        return tuple(evaluate(dim, self._sizes) for dim in self._graph.outputs[name].shape)

    def _copy(self, name: str, view: View) -> Float:
        shape, slot = self._shape(name), view.slot
        if slot.base.startswith("input."):
            return self._arrays[slot.base.removeprefix("input.")].reshape(shape).astype(np.float32)
        if slot.base.startswith("output."):
            return self._owned[slot.base.removeprefix("output.")].reshape(shape).copy()
        start = self._bases[slot.base] - self._arena.ctypes.data + self._sizes[slot.size] * slot.scale + slot.offset
        kind = np.int32 if view.dtype == "int32" else np.float32
        rows = self._sizes[view.rows.size] * view.rows.scale + view.rows.offset
        if not rows:
            return np.empty(shape, np.float32)
        values = np.ndarray((rows, view.columns), kind, self._arena.data, start, (view.stride, 4))
        return np.array(values, np.float32).reshape(shape)
