"""What a kernel backend implements, and the names that it needs for that."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from modelhost.graph.arena import plan_arena
from modelhost.graph.cache import CacheSpec, RecurrentSpec, block_entries
from modelhost.graph.graph import Graph, Node
from modelhost.graph.operation import Operation
from modelhost.graph.sizes import bind_symbols
from modelhost.graph.tensor import ITEM_SIZES, DType, Parameter, State, Symbol, Tensor, evaluate

from .system import available_memory
from .weight import Weight

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

__all__ = [
    "ITEM_SIZES",
    "CacheLayout",
    "CacheSpec",
    "DType",
    "Executable",
    "Graph",
    "KernelBackend",
    "Node",
    "OpTime",
    "Operation",
    "Parameter",
    "ProfiledExecutable",
    "RecurrentSpec",
    "State",
    "Symbol",
    "Tensor",
    "Weight",
    "available_memory",
    "bind_symbols",
    "block_entries",
    "evaluate",
    "plan_arena",
]


@dataclass(frozen=True, slots=True)
class CacheLayout:
    """Size of the paged cache.

    Attributes:
        block_size: tokens in a block. Caches with a stride have :func:`block_entries` entries in a block.
        blocks: number of blocks of each KV group, by group name. Block 0 is never handed to a sequence.
    """

    block_size: int
    blocks: Mapping[str, int]


class Executable(Protocol):
    """A compiled graph with its weights and caches."""

    @property
    def weight_bytes(self) -> int:
        """Bytes that the loaded weights take; the sum of :meth:`KernelBackend.resident_bytes` of the parameters."""
        ...

    def run(self, inputs: Mapping[str, npt.NDArray[np.int32]]) -> dict[str, npt.NDArray[np.float32]]:
        """Run one step.

        Besides the graph's inputs a step always carries ``generated``, int32 ``[T]``: 1 for a token that the model
        generated, also when it is computed again after preemption or is a draft to be verified, and 0 for a token of
        the prompt. A backend that computes the two by different kernels chooses by it, for then a token's values do
        not depend on what else is in the step. Where it is absent all tokens are of the prompt.

        Args:
            inputs: an int32 array for each input of the graph, and ``generated``. Others are to be ignored.

        Returns:
            a float32 array for each output of the graph.
        """
        ...


@dataclass(frozen=True, slots=True)
class OpTime:
    """What one op took in one step.

    Attributes:
        name: of the op, or of what the backend made of several.
        detail: what tells its uses apart, such as the encoding and the shape of its weight.
        calls: how often it ran.
        seconds: of wall-clock time, all calls together.
        bytes_read: bytes of weights and of cache entries that all calls read; ``None`` where that is not known.
    """

    name: str
    detail: str
    calls: int
    seconds: float
    bytes_read: int | None = None


@runtime_checkable
class ProfiledExecutable(Executable, Protocol):
    """An executable that can time its ops. Executables need not have this."""

    def profile(self, inputs: Mapping[str, npt.NDArray[np.int32]]) -> Sequence[OpTime]:
        """Run one step like :meth:`Executable.run`, caches included, and time every op.

        Args:
            inputs: as for :meth:`Executable.run`.

        Returns:
            the times in order of execution. Entries of the same name and detail belong together: a backend may add
            them up, or leave that to the caller.
        """
        ...


class KernelBackend(Protocol):
    """A way to run graphs on one kind of device.

    The target of a :class:`~modelhost.api.Backend` record is a callable
    ``(*, device: str, dtype: DType, settings: object | None) -> KernelBackend``. ``settings`` is an instance of the
    record's settings model, ``None`` when it has none. Where the model has fields ``threads`` or ``deterministic``, the
    user's options of these names are among them; otherwise those options are refused.
    It raises :class:`~modelhost.api.UnsupportedError` for a device or dtype that it cannot use.
    """

    name: str
    device: str
    dtype: DType

    def native(self, op: Operation[..., Any]) -> bool:
        """Whether the backend has a kernel for ``op``; otherwise its decomposition is used."""
        ...

    def resident_bytes(self, parameter: Parameter, encoding: str, encoded_bytes: int) -> int:
        """Memory that ``parameter`` takes once loaded from ``encoded_bytes`` bytes in ``encoding``."""
        ...

    def workspace_bytes(self, graph: Graph, sizes: Mapping[str, int]) -> int:
        """Memory that a step takes besides weights and caches.

        Args:
            sizes: the value of every symbol and, as ``block_size``, the tokens in a block of the cache.
        """
        ...

    def free_memory(self) -> int:
        """Bytes that can be allocated on the device now."""
        ...

    def compile(self, graph: Graph, load: Callable[[Parameter], Weight], cache: CacheLayout) -> Executable:
        """Make ``graph`` executable.

        Args:
            graph: lowered to ops that are native.
            load: returns the weight of a parameter; called once for each, in any order.
            cache: the number of blocks to allocate for every state of the graph.
        """
        ...
