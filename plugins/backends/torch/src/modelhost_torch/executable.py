"""A compiled graph: a list of calls over numbered registers."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from modelhost.api.backend import (
    CacheLayout,
    CacheSpec,
    Graph,
    Node,
    Parameter,
    RecurrentSpec,
    State,
    Tensor,
    Weight,
    bind_symbols,
    block_entries,
)
from modelhost.graph import ops

from .attention import PagedCache
from .attention_plan import Geometry, plan_attention
from .compressed import Pooling, plan_pooling
from .kernels import bind
from .planned import INDICES, PLANNED, TABLES, holds_scores
from .recurrent import INDICES as STATE_INDICES
from .recurrent import RECURRENT
from .walk import plan_walk
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


def _allocate(state: State, cache: CacheLayout, device: torch.device, dtype: torch.dtype) -> PagedCache | torch.Tensor:
    """A paged cache, or recurrent states ``[slots, *shape]`` in float32."""
    spec, blocks = state.spec, cache.blocks[state.spec.group]
    if isinstance(spec, RecurrentSpec):
        return torch.zeros(blocks, *spec.shape, dtype=torch.float32, device=device)
    slots = blocks * block_entries(cache.block_size, spec.stride)
    keys = torch.zeros(slots, spec.kv_heads, spec.key_dim, dtype=dtype, device=device)
    if spec.latent:
        return PagedCache(keys, keys[..., : spec.value_dim], latent=True)
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
        if node.op in PLANNED:
            states = zip(TABLES, node.states, strict=False)
            plans = [((table, *INDICES), plan_attention, self._geometry(node, state)) for table, state in states]
            return self._planned(node, *plans)
        if node.op is ops.pool_windows:
            return self._planned(node, ((TABLES[0], *INDICES), plan_pooling, self._pooling(node)))
        if node.op in RECURRENT:
            return self._planned(node, (STATE_INDICES, plan_walk))
        return self._planned(node)

    def _planned(self, node: Node, *plans: tuple[Any, ...]) -> list[Call]:
        """The call of a kernel that takes, instead of some operands, what is planned from them, last.

        Args:
            plans: names of operands, the function that plans, and what it takes besides.
        """
        named = dict(zip(node.op.operand_names, node.operands, strict=True))
        used = {name for names, *_ in plans for name in names}
        others = [self.number(operand) for name, operand in named.items() if name not in used]
        calls: list[Call] = []
        for names, make, *extra in plans:
            planning, plan = self._plan([named[name] for name in names], make, *extra)
            calls += planning
            others.append(plan)
        return [*calls, Call(bind(node, self.device), tuple(others), tuple(map(self.number, node.outputs)))]

    def _plan(self, indices: Sequence[Any], make: Callable[..., Any], *extra: Hashable) -> tuple[list[Call], int]:
        """The register of a plan, and the call that fills it unless one did already."""
        key = (make, *indices, *extra)
        if key in self._plans:
            return [], self._plans[key]
        self._plans[key] = register = len(self.registers)
        self.registers.append(None)
        kernel = partial(_plan, make=make, extra=(*extra, self.device))
        return [Call(kernel, tuple(map(self._host_number, indices)), (register,))], register

    def _pooling(self, node: Node) -> Pooling:
        [state] = node.states
        if not isinstance(state.spec, CacheSpec) or state.spec.window is None:
            raise TypeError(f"malformed node: {node}")
        return Pooling(self.block_size, state.spec.window, node.attributes["stride"])

    def _geometry(self, node: Node, state: State) -> Geometry:
        """Score rows are those of the scores where a kernel holds them, else those of the mask."""
        query, spec = node.operands[0], state.spec
        if not isinstance(query, Tensor) or not isinstance(spec, CacheSpec):
            raise TypeError(f"malformed node: {node}")
        cache: PagedCache = self.constants[state]
        heads = int(str(query.shape[1]))
        sparse = "selected" in node.op.operand_names and node.operands[-1] is not None
        half = cache.keys.dtype != torch.float32 and spec.key_dim == spec.value_dim <= 256
        fused = not sparse and not holds_scores(node) and (self.device.type == "cpu" or half)
        group = heads // spec.kv_heads if node.op in (ops.attention, ops.compressed_attention) else 1
        return Geometry(
            block_size=block_entries(self.block_size, spec.stride),
            window=spec.window,
            group=group,
            score_rows=heads if holds_scores(node) else group,
            token_bytes=cache.keys[0].nbytes + (0 if spec.latent else cache.values[0].nbytes),
            causal_kernel=fused and self.device.type in ("cpu", "cuda"),
            stride=spec.stride,
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


def _plan(*indices: npt.NDArray[np.int32] | torch.Tensor, make: Callable[..., Any], extra: tuple[Any, ...]) -> Any:
    return make(*(i.cpu().numpy() if isinstance(i, torch.Tensor) else i for i in indices), *extra)
