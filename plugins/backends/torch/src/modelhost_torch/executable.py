"""A compiled graph: a list of calls over numbered registers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from modelhost.api.backend import CacheLayout, Graph, Node, Parameter, State, Tensor, Weight, bind_symbols
from modelhost.graph import ops

from .attention import PagedCache
from .attention_plan import Geometry, plan_attention
from .kernels import bind
from .weights import load_weight, storage_dtype


@dataclass(frozen=True, slots=True)
class Call:
    """One kernel launch.

    Attributes:
        kernel: takes the values of ``arguments`` in order.
        arguments: registers that it reads; -1 stands for ``None``.
        results: registers that it sets.
        dead: registers that nothing reads afterwards.
    """

    kernel: Callable[..., Any]
    arguments: tuple[int, ...]
    results: tuple[int, ...]
    dead: tuple[int, ...] = ()


class TorchExecutable:
    """A graph with its weights, its caches and the calls of a step."""

    @torch.inference_mode()
    def __init__(
        self,
        graph: Graph,
        load: Callable[[Parameter], Weight],
        cache: CacheLayout,
        device: torch.device,
        dtype: torch.dtype,
    ) -> None:
        self.graph = graph
        self._device = device
        self._weights = {p: load_weight(load(p), storage_dtype(p, dtype), device) for p in graph.parameters.values()}
        caches = {state: _allocate(state, cache, device, dtype) for state in graph.states.values()}
        compiler = _Compiler(graph, {**self._weights, **caches}, cache.block_size, device)
        self._calls = compiler.calls()
        self._registers = compiler.registers
        self._inputs = {name: compiler.number(tensor) for name, tensor in graph.inputs.items()}
        self._host_inputs = compiler.host_inputs
        self._outputs = {name: compiler.number(tensor) for name, tensor in graph.outputs.items()}

    @property
    def weight_bytes(self) -> int:
        return sum(weight.nbytes for weight in self._weights.values())

    @torch.inference_mode()
    def run(self, inputs: Mapping[str, npt.NDArray[np.int32]]) -> dict[str, npt.NDArray[np.float32]]:
        bind_symbols(self.graph, inputs)
        registers = self._registers.copy()
        for name, register in self._inputs.items():
            registers[register] = torch.from_numpy(inputs[name].astype(np.int64)).to(self._device)
        for name, register in self._host_inputs.items():
            registers[register] = inputs[name]
        for call in self._calls:
            _store(registers, call.results, call.kernel(*[registers[i] for i in call.arguments]))
            for register in call.dead:
                registers[register] = None
        return {name: _to_numpy(registers[register]) for name, register in self._outputs.items()}


def _store(registers: list[Any], numbers: tuple[int, ...], result: Any) -> None:
    several = result if isinstance(result, tuple) else (result,)
    for number, value in zip(numbers, several, strict=True):
        registers[number] = value


def _to_numpy(value: torch.Tensor) -> npt.NDArray[np.float32]:
    array: npt.NDArray[np.float32] = value.float().cpu().contiguous().numpy()
    return array


def _allocate(state: State, cache: CacheLayout, device: torch.device, dtype: torch.dtype) -> PagedCache:
    spec = state.spec
    slots = cache.blocks[spec.group] * cache.block_size
    keys = torch.zeros(slots, spec.kv_heads, spec.key_dim, dtype=dtype, device=device)
    values = torch.zeros(slots, spec.kv_heads, spec.value_dim, dtype=dtype, device=device)
    return PagedCache(keys, values)


class _Compiler:
    """Numbers the values of a graph and turns its nodes into calls."""

    def __init__(self, graph: Graph, constants: Mapping[Any, Any], block_size: int, device: torch.device) -> None:
        self.graph, self.constants, self.block_size, self.device = graph, constants, block_size, device
        self.registers: list[Any] = [None]
        self.host_inputs: dict[str, int] = {}
        self._numbers: dict[Any, int] = {}
        self._plans: dict[Any, int] = {}
        self._names = {tensor: name for name, tensor in graph.inputs.items()}

    def number(self, value: Tensor | State | None) -> int:
        """The register of ``value``. Register 0 holds ``None``."""
        if value is None:
            return 0
        if value not in self._numbers:
            self._numbers[value] = len(self.registers)
            self.registers.append(self.constants.get(value))
        return self._numbers[value]

    def calls(self) -> list[Call]:
        calls = [call for node in self.graph.nodes for call in self._calls_of(node)]
        return self._with_deaths(calls)

    def _calls_of(self, node: Node) -> list[Call]:
        kernel = bind(node, self.device)
        results = tuple(map(self.number, node.outputs))
        if node.op is not ops.attention:
            return [Call(kernel, tuple(map(self.number, node.operands)), results)]
        query, cache = node.operands[:2]
        planning, plan = self._attention_plan(node)
        return [*planning, Call(kernel, (self.number(query), self.number(cache), plan), results)]

    def _attention_plan(self, node: Node) -> tuple[list[Call], int]:
        """The register of the parts that ``node`` attends in, and the call that fills it unless one did already."""
        indices = node.operands[2:]
        geometry = self._geometry(node)
        key = (*indices, geometry)
        if key in self._plans:
            return [], self._plans[key]
        self._plans[key] = register = len(self.registers)
        self.registers.append(None)
        kernel = partial(_plan, geometry=geometry, device=self.device)
        return [Call(kernel, tuple(map(self._host_number, indices)), (register,))], register

    def _geometry(self, node: Node) -> Geometry:
        query, state = node.operands[:2]
        if not isinstance(query, Tensor) or not isinstance(state, State):
            raise TypeError(f"malformed node: {node}")
        cache: PagedCache = self.constants[state]
        spec = state.spec
        group = int(str(query.shape[1])) // spec.kv_heads
        explicit = node.attributes["soft_cap"] is not None
        half = cache.keys.dtype != torch.float32 and spec.key_dim == spec.value_dim <= 256
        return Geometry(
            block_size=self.block_size,
            window=spec.window,
            group=group,
            score_rows=group * (spec.kv_heads if explicit else 1),
            token_bytes=cache.keys[0].nbytes + cache.values[0].nbytes,
            causal_kernel=not explicit and (self.device.type == "cpu" or (self.device.type == "cuda" and half)),
        )

    def _host_number(self, value: Tensor | State | None) -> int:
        """The register of a graph input as it came, or of a computed value."""
        name = self._names.get(value) if isinstance(value, Tensor) else None
        if name is None:
            return self.number(value)
        if name not in self.host_inputs:
            self.host_inputs[name] = len(self.registers)
            self.registers.append(None)
        return self.host_inputs[name]

    def _with_deaths(self, calls: list[Call]) -> list[Call]:
        lasting = {0, *map(self.number, self.graph.outputs.values()), *map(self.number, self.constants)}
        seen: set[int] = set()
        result: list[Call] = []
        for call in reversed(calls):
            dead = {*call.arguments, *call.results} - seen - lasting
            seen |= dead
            result.append(replace(call, dead=tuple(sorted(dead))))
        return result[::-1]


def _plan(*indices: npt.NDArray[np.int32] | torch.Tensor, geometry: Geometry, device: torch.device) -> Any:
    table, starts, contexts = (i.cpu().numpy() if isinstance(i, torch.Tensor) else i for i in indices)
    return plan_attention(table, starts, contexts, geometry, device)
