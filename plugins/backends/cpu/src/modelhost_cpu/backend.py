"""The backend object: what it can compute, how much memory that takes, and compilation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from modelhost.api import UnsupportedError
from modelhost.api.backend import (
    CacheLayout,
    DType,
    Graph,
    Operation,
    Parameter,
    Weight,
    available_memory,
    evaluate,
)

from .executable import CpuExecutable
from .logits import logit_memory_bytes
from .machine import available_threads, select_target
from .native.compiler import shared_compiler
from .native.pool import shared_pool
from .program.builder import Options, Program, ProgramBuilder
from .program.lowering import lowerings
from .settings import CpuSettings
from .weights import stored_bytes

DTYPES = ("bfloat16", "float32")


class CpuBackend:
    """Kernels compiled by LLVM for this CPU, a step in one native call on a pool of threads.

    In ``"float32"`` everything is computed in float32. In ``"bfloat16"`` the operands of matrix products are rounded:
    those of prompt tokens to bfloat16, those of generated tokens to 8-bit integers with a scale for every 32; caches
    are bfloat16, and all else is float32.

    Args:
        device: ``"cpu"``.
        dtype: ``"bfloat16"`` or ``"float32"``.
        settings: of this backend.

    Raises:
        UnsupportedError: another device or dtype, or the machine lacks an instruction set that was asked for.
    """

    name = "cpu"

    def __init__(self, *, device: str = "cpu", dtype: DType = "bfloat16", settings: CpuSettings | None = None) -> None:
        if device != "cpu":
            raise UnsupportedError(f"backend 'cpu' runs on device 'cpu', not on {device!r}")
        if dtype not in DTYPES:
            raise UnsupportedError(f"backend 'cpu' computes in {' or '.join(DTYPES)}, not in {dtype!r}")
        self.device = device
        self.dtype: DType = dtype
        self._settings = settings or CpuSettings()
        self._target = select_target(self._settings.isa)
        self._threads = self._settings.threads or available_threads()
        self._compiler = shared_compiler(self._target, self._settings.object_cache)
        self._planned: tuple[Graph | None, int, int, Program | None] = None, 0, 0, None

    def _options(self, block_size: int) -> Options:
        return Options(self._target, self._threads, self.dtype == "float32", self._settings.deterministic, block_size)

    def native(self, op: Operation[..., Any]) -> bool:
        return op.name in lowerings()

    def resident_bytes(self, parameter: Parameter, encoding: str, encoded_bytes: int) -> int:
        return stored_bytes(parameter, encoding, self.dtype == "float32")

    def workspace_bytes(self, graph: Graph, sizes: Mapping[str, int]) -> int:
        program = self._plan(graph, sizes["block_size"])
        known = {**sizes, **program.most}
        arena = sum(unit * _size(known, symbol) for symbol, unit in program.unit_bytes.items())
        results = sum(tensor.nbytes(sizes) for tensor in graph.outputs.values())
        return arena + results + self._threads * program.scratch_bytes + _choice_bytes(graph, sizes)

    def _plan(self, graph: Graph, block_size: int) -> Program:
        """The program of ``graph`` without weights. The last is kept: memory is planned for many sizes of a graph."""
        planned, size, nodes, program = self._planned
        if program is None or planned is not graph or (size, nodes) != (block_size, len(graph.nodes)):
            program = ProgramBuilder(graph, self._options(block_size)).build(lowerings())
            self._planned = graph, block_size, len(graph.nodes), program
        return program

    def free_memory(self) -> int:
        return available_memory()

    def compile(self, graph: Graph, load: Callable[[Parameter], Weight], cache: CacheLayout) -> CpuExecutable:
        return CpuExecutable(
            graph,
            load,
            cache,
            self._compiler,
            shared_pool(self._compiler, self._threads),
            self._options(cache.block_size),
        )


def _choice_bytes(graph: Graph, sizes: Mapping[str, int]) -> int:
    """Memory for choosing tokens by the logits of a step."""
    logits = graph.outputs.get("logits")
    if logits is None:
        return 0
    rows, size = (evaluate(dim, sizes) for dim in logits.shape)
    return logit_memory_bytes(rows, size)


def _size(sizes: Mapping[str, int], symbol: str) -> int:
    return sizes.get(symbol, sizes["T"])
