"""Lowering: from the nodes of a graph to calls of kernels."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import TYPE_CHECKING, Any, TypeVar

from modelhost.api import UnsupportedError
from modelhost.api.backend import Graph, Node, Parameter, State, Symbol, Tensor
from modelhost_cpu.machine import Target
from modelhost_cpu.native.kernel import WORK, KernelSpec

from .lifetimes import Lifetimes
from .views import Buffer, Slot, View, plan_buffers, rows_of

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from modelhost_cpu.weights import StoredWeight

    Int = npt.NDArray[np.int32]

Result = TypeVar("Result")
Derivation = Callable[[Mapping[str, "Int"]], "Int"]
"""Makes an array of the step's inputs."""
ONCE = 1 << 40
"""A grain larger than any work: one block if there is any."""


@dataclass(frozen=True, slots=True)
class Options:
    """What a program is built for.

    Attributes:
        target: the CPU.
        threads: that a step runs on.
        exact: compute matrix products in float32.
        deterministic: compute prompt and generated tokens by the same kernels.
        block_size: tokens in a block of the paged caches.
    """

    target: Target
    threads: int = 1
    exact: bool = False
    deterministic: bool = False
    block_size: int = 16


@dataclass(slots=True)
class Call:
    """One op of the program.

    Attributes:
        spec: the kernel.
        operands: content of its slots, in the spec's order.
        grain: work in one block.
        columns: chunks that each block is cut into.
        scratch: bytes of scratch memory that a thread needs.
        label: the graph's op and what it works on, for profiles.
        weight_bytes: bytes of weights that it reads.
    """

    spec: KernelSpec
    operands: tuple[Slot | View, ...]
    grain: int
    columns: int
    scratch: int
    label: tuple[str, str]
    weight_bytes: int


@dataclass(frozen=True, slots=True)
class Program:
    """Calls in order and the memory that they need.

    Attributes:
        calls: in order of execution.
        unit_bytes: bytes of the arena for one unit of every symbol.
        outputs: named results.
        derived: arrays that are made of the inputs at every step; the length of ``x`` is the size ``"x"``, its
            address the base ``"derived.x"``.
        scratch_bytes: for each thread.
        most: greatest lengths of derived arrays whose lengths are sizes of memory, by name.
    """

    calls: list[Call]
    unit_bytes: dict[str, int]
    outputs: dict[str, View]
    derived: dict[str, Derivation]
    scratch_bytes: int
    most: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class ProgramBuilder:
    """What lowerings use.

    Args:
        graph: of ops that have a lowering.
        options: what for.
        weights: the loaded parameters, or ``None`` to plan memory only.
        states: addresses of the caches of every state: of keys and values, or of a recurrent state. ``None`` to plan.
    """

    graph: Graph
    options: Options
    weights: Mapping[str, StoredWeight] | None = None
    states: Mapping[str, tuple[int, ...]] | None = None
    calls: list[Call] = field(default_factory=list)
    derived: dict[str, Derivation] = field(default_factory=dict)
    _most: dict[str, int] = field(default_factory=dict)
    _views: dict[Tensor, View] = field(default_factory=dict)
    _buffers: list[Buffer] = field(default_factory=list)
    _shared: dict[object, Any] = field(default_factory=dict)
    _node: Node | None = None
    _lifetimes: Lifetimes = field(init=False)

    def __post_init__(self) -> None:
        self._lifetimes = Lifetimes(self.graph)

    @property
    def target(self) -> Target:
        """The CPU."""
        return self.options.target

    def build(self, lowerings: Mapping[str, Callable[[ProgramBuilder, Node], None]]) -> Program:
        """Lower every node in order."""
        for tensor in self.graph.inputs.values():
            self._views[tensor] = self._input(tensor)
        for place, node in enumerate(self.graph.nodes):
            self._node, self._lifetimes.place = node, place
            lowerings[node.op.name](self, node)
        outputs = {name: self.view(tensor) for name, tensor in self.graph.outputs.items()}
        for name, view in outputs.items():
            if view.buffer is not None:
                view.buffer.last = len(self.calls)
                if _fills(view, view.buffer) and not view.buffer.output:
                    view.buffer.output = name
        units = plan_buffers([buffer for buffer in self._buffers if not buffer.output])
        scratch = max((call.scratch for call in self.calls), default=0)
        return Program(self.calls, units, outputs, self.derived, scratch, self._most)

    def _input(self, tensor: Tensor) -> View:
        columns = prod(dim if isinstance(dim, int) else 0 for dim in tensor.shape[1:])
        place = Slot(f"input.{tensor.name}")
        return View(self._rows(tensor), columns, columns * 4, place, dtype=tensor.dtype)

    @staticmethod
    def _rows(tensor: Tensor) -> Slot:
        first = tensor.shape[0] if tensor.shape else 1
        return Slot(offset=first) if isinstance(first, int) else Slot("", first.name, first.scale, first.offset)

    def view(self, tensor: Tensor) -> View:
        """Where an input, an intermediate tensor or a parameter kept as plain values is."""
        if isinstance(tensor, Parameter):
            rows, *inner = tensor.sizes
            return View(Slot(offset=rows), prod(inner), 4 * prod(inner), self.values(tensor), dtype=tensor.dtype)
        return self._views[tensor]

    def alias(self, tensor: Tensor, view: View) -> None:
        """Say that ``tensor`` is found at ``view``."""
        self._views[tensor] = view

    def output(self, tensor: Tensor, over: Sequence[Any] = ()) -> View:
        """Memory for a result of the current node, ``[rows, columns]``.

        Args:
            over: operands whose memory it may take, where nothing needs them afterwards. The kernel must have read an
                element before it writes that element, and go by the result's stride. Without any it is contiguous.
        """
        rows = self._rows(tensor)
        if not rows.size or rows.offset or any(isinstance(dim, Symbol) for dim in tensor.shape[1:]):
            raise UnsupportedError(f"backend 'cpu' keeps results with one symbolic dimension, the first, not {tensor}")
        columns = prod(dim for dim in tensor.shape[1:] if isinstance(dim, int))
        dtype = "int32" if tensor.dtype == "int32" else "float32"
        for operand in over:
            old = self._views.get(operand)
            if old is not None and (old.rows, old.columns) == (rows, columns) and self._free(old):
                self._views[tensor] = replace(old, dtype=dtype, version=old.version + 1)
                return self._views[tensor]
        view = self.temporary(rows.size, columns * 4 * rows.scale)
        self._views[tensor] = View(rows, columns, columns * 4, buffer=view.buffer, dtype=dtype)
        return self._views[tensor]

    def _free(self, view: View) -> bool:
        return self._lifetimes.free(view, self._views.items())

    def temporary(self, symbol: str, unit_bytes: int) -> View:
        """Memory of ``unit_bytes`` for every unit of ``symbol``, rounded up to 64, for calls of the current node."""
        unit_bytes = -(-unit_bytes // 64) * 64
        buffer = Buffer(symbol, unit_bytes)
        self._buffers.append(buffer)
        return View(rows_of(symbol), unit_bytes // 4, unit_bytes, buffer=buffer)

    def parameter(self, tensor: Any) -> StoredWeight | None:
        """A loaded parameter; ``None`` when memory is being planned."""
        if not isinstance(tensor, Parameter):
            raise UnsupportedError(f"backend 'cpu' wants a parameter, not the tensor {tensor}")
        return self.weights[tensor.name] if self.weights is not None else None

    def values(self, tensor: Any) -> Slot:
        """The address of a parameter that is kept as plain values: of a vector, or of integers."""
        stored = self.parameter(tensor)
        return Slot(offset=stored.address if stored is not None else 0)

    def state(self, state: State) -> tuple[Slot, ...]:
        """The addresses of a state's memory."""
        addresses = self.states[state.name] if self.states is not None else (0, 0)
        return tuple(Slot(offset=address) for address in addresses)

    def shared(self, key: object, make: Callable[[], Result]) -> Result:
        """``make()``, called once in the program for each ``key``."""
        if key not in self._shared:
            self._shared[key] = make()
        result: Result = self._shared[key]
        return result

    def derive(self, name: str, make: Derivation, most: int | None = None) -> tuple[Slot, Slot]:
        """An int32 array that is made of the step's inputs: its address and its length.

        Args:
            make: called at every step with all inputs by name, those of the graph and ``generated``; keep it fast.
            most: greatest length, needed where it is the symbol of a temporary: memory is planned with it.
        """
        self.derived.setdefault(name, make)
        if most is not None:
            self._most[name] = most
        return Slot(f"derived.{name}"), rows_of(name)

    def call(
        self,
        emit: Callable[..., None],
        work: Slot,
        operands: Mapping[str, Slot | View | None],
        *,
        grain: int = ONCE,
        columns: int = 1,
        scratch: int = 0,
        detail: str = "",
        weight_bytes: int = 0,
        **constants: Any,
    ) -> None:
        """Append a call.

        Args:
            emit: writes the kernel.
            work: how much there is to do; slot ``work`` of the kernel.
            operands: its other slots; those that are ``None`` are left out.
            grain: work in one block.
            columns: chunks that each block is cut into.
            scratch: bytes of memory that each thread needs.
            detail: what it works on, for profiles.
            weight_bytes: bytes of weights that it reads.
            constants: arguments of ``emit``.
        """
        given = {name: operand for name, operand in operands.items() if operand is not None}
        spec = KernelSpec(emit, tuple(constants.items()), (WORK, *given))
        for operand in given.values():
            self._use(operand)
        label = (self._node.op.name if self._node is not None else "", detail)
        self.calls.append(Call(spec, (work, *given.values()), grain, columns, scratch, label, weight_bytes))

    def _use(self, operand: Slot | View) -> None:
        if isinstance(operand, View) and operand.buffer is not None:
            if operand.buffer.first < 0:
                operand.buffer.first = len(self.calls)
            operand.buffer.last = len(self.calls)


def _fills(view: View, buffer: Buffer) -> bool:
    """Whether a view of float32 numbers is the whole of a buffer, so that an array can take the buffer's place."""
    whole = view.contiguous and view.offset == 0 and view.dtype == "float32"
    return whole and -(-view.stride * view.rows.scale // 64) * 64 == buffer.unit_bytes
