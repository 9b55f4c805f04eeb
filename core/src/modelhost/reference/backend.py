"""Runs a graph node by node with the NumPy kernels."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from modelhost.api.backend import CacheLayout, OpTime
from modelhost.api.errors import UnsupportedError
from modelhost.api.system import available_memory
from modelhost.api.weight import Weight
from modelhost.graph.arena import plan_arena
from modelhost.graph.cache import RecurrentSpec, block_entries
from modelhost.graph.graph import Graph, Node
from modelhost.graph.operation import Operation
from modelhost.graph.sizes import bind_symbols
from modelhost.graph.tensor import DType, Parameter, State, Tensor, evaluate

from .registry import KERNELS, Float, PagedCache

_READ_BY_ROW = frozenset({"embed", "experts"})
"""Ops that read a part of their weights that depends on the step's tokens."""


class ReferenceBackend:
    """NumPy on the host, float32. Other backends may subclass it and bring kernels of their own.

    Attributes:
        name: of the backend, for messages.
        kernels: for each op, by its name, a function of its operands in order as arrays (``None`` where one is left
            out) and its attributes as keywords. It returns the output, or several as a list or tuple.
    """

    name: str = "reference"
    kernels: ClassVar[Mapping[str, Callable[..., Any]]] = KERNELS

    def __init__(self, *, device: str = "cpu", dtype: DType = "float32", settings: object | None = None) -> None:
        if device != "cpu" or dtype != "float32":
            raise UnsupportedError(f"the {self.name} backend runs on cpu in float32 only, not on {device} in {dtype}")
        self.device = device
        self.dtype: DType = dtype

    def native(self, op: Operation[..., Any]) -> bool:
        return op.name in self.kernels

    def resident_bytes(self, parameter: Parameter, encoding: str, encoded_bytes: int) -> int:
        return parameter.nbytes({})

    def workspace_bytes(self, graph: Graph, sizes: Mapping[str, int]) -> int:
        return plan_arena(graph, sizes).size

    def free_memory(self) -> int:
        return available_memory()

    def compile(self, graph: Graph, load: Callable[[Parameter], Weight], cache: CacheLayout) -> ReferenceExecutable:
        return ReferenceExecutable(graph, load, cache, self.kernels)


class ReferenceExecutable:
    """A graph, its weights as float32 arrays, its caches, and the loop over its nodes."""

    def __init__(
        self,
        graph: Graph,
        load: Callable[[Parameter], Weight],
        cache: CacheLayout,
        kernels: Mapping[str, Callable[..., Any]] = KERNELS,
    ) -> None:
        self.graph = graph
        self.kernels = [kernels[node.op.name] for node in graph.nodes]
        self.constants: dict[Tensor | State, Any] = {
            parameter: np.ascontiguousarray(load(parameter).dequantize(), parameter.dtype)
            for parameter in graph.parameters.values()
        }
        self.constants |= {state: _allocate(state, cache) for state in graph.states.values()}
        self.last_use = _last_uses(graph)

    @property
    def weight_bytes(self) -> int:
        return sum(int(self.constants[parameter].nbytes) for parameter in self.graph.parameters.values())

    def run(self, inputs: Mapping[str, npt.NDArray[np.int32]]) -> dict[str, npt.NDArray[np.float32]]:
        return self._run(inputs, lambda node, seconds: None)

    def profile(self, inputs: Mapping[str, npt.NDArray[np.int32]]) -> list[OpTime]:
        times: list[OpTime] = []
        sizes = bind_symbols(self.graph, inputs)
        self._run(inputs, lambda node, seconds: times.append(_op_time(node, seconds, sizes)))
        return times

    def _run(
        self, inputs: Mapping[str, npt.NDArray[np.int32]], observe: Callable[[Node, float], None]
    ) -> dict[str, npt.NDArray[np.float32]]:
        sizes = bind_symbols(self.graph, inputs)
        values: dict[Any, Any] = {tensor: inputs[name] for name, tensor in self.graph.inputs.items()}
        for node, kernel, dead in zip(self.graph.nodes, self.kernels, self.last_use, strict=True):
            arguments = [
                None if o is None else self.constants[o] if o in self.constants else values[o] for o in node.operands
            ]
            attributes = _attributes(node, sizes)
            started = time.perf_counter()
            results = kernel(*arguments, **attributes)
            observe(node, time.perf_counter() - started)
            several = results if isinstance(results, list | tuple) else (results,)
            values.update(zip(node.outputs, several, strict=True))
            for tensor in dead:
                del values[tensor]
        return {name: np.ascontiguousarray(values[tensor], np.float32) for name, tensor in self.graph.outputs.items()}


def _op_time(node: Node, seconds: float, sizes: Mapping[str, int]) -> OpTime:
    weights = [tensor for tensor in node.tensors if isinstance(tensor, Parameter)]
    shown: tuple[Tensor, ...] = (*weights, *node.outputs)[:1]
    detail = ", ".join(f"{tensor.dtype} {[evaluate(dim, sizes) for dim in tensor.shape]}" for tensor in shown)
    chosen_rows = node.op.name in _READ_BY_ROW or any(True for _ in node.states)
    return OpTime(node.op.name, detail, 1, seconds, None if chosen_rows else sum(w.nbytes({}) for w in weights))


def _attributes(node: Node, sizes: Mapping[str, int]) -> Mapping[str, Any]:
    if "shape" not in node.attributes:
        return node.attributes
    return {**node.attributes, "shape": tuple(evaluate(dim, sizes) for dim in node.attributes["shape"])}


def _allocate(state: State, cache: CacheLayout) -> PagedCache | Float:
    spec, blocks = state.spec, cache.blocks[state.spec.group]
    if isinstance(spec, RecurrentSpec):
        return np.zeros((blocks, *spec.shape), np.float32)
    size = block_entries(cache.block_size, spec.stride)
    slots = blocks * size
    keys = np.zeros((slots, spec.kv_heads, spec.key_dim), np.float32)
    values = (
        keys[..., : spec.value_dim] if spec.latent else np.zeros((slots, spec.kv_heads, spec.value_dim), np.float32)
    )
    return PagedCache(keys, values, size, spec.window, spec.stride)


def _last_uses(graph: Graph) -> list[list[Tensor]]:
    """For every node, the intermediate tensors that nothing reads after it."""
    alive = set(graph.outputs.values())
    intermediates = {output for node in graph.nodes for output in node.outputs}
    result: list[list[Tensor]] = []
    for node in reversed(graph.nodes):
        dead = {t for t in (*node.tensors, *node.outputs) if t in intermediates and t not in alive}
        alive |= dead
        result.append(list(dead))
    return result[::-1]
