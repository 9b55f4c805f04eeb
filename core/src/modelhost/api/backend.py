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
    "LogitOps",
    "Node",
    "OpTime",
    "Operation",
    "Parameter",
    "ProfiledExecutable",
    "RecurrentSpec",
    "SamplingExecutable",
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


class LogitOps(Protocol):
    """What sampling computes over rows of logits.

    Rows are S float32 arrays ``[V]``, contiguous, left unchanged. They need not lie together: masks and penalties are
    applied to copies of some. Parameters have one entry a row. A row's result depends on nothing but the row, its own
    parameters and ``count``.

    Tokens are ordered by falling logit and, where logits are equal, by rising id. NaN counts as the greatest number.
    The weight of a token is ``exp((logit - greatest logit of the row) / temperature)``.
    """

    def argmax(self, rows: Sequence[npt.NDArray[np.float32]]) -> npt.NDArray[np.int64]:
        """The first token of every row in order, int64 ``[S]``."""
        ...

    def top_k(self, rows: Sequence[npt.NDArray[np.float32]], count: int) -> npt.NDArray[np.int64]:
        """The first ``count`` tokens of every row in order, int64 ``[S, count]``.

        Args:
            count: 0 to V. Of a row with NaN only the first token is defined.
        """
        ...

    def nucleus(
        self,
        rows: Sequence[npt.NDArray[np.float32]],
        temperatures: npt.NDArray[np.float64],
        least: npt.NDArray[np.float32],
        top_ps: npt.NDArray[np.float64],
    ) -> npt.NDArray[np.int64]:
        """The last token of the shortest list of first tokens that has a share of the weights (Holtzman et al. 2019).

        Args:
            temperatures: float64 ``[S]``, above 0.
            least: float32 ``[S]``; only tokens with a logit of at least this count, minus infinity for all. It is not
                above the row's greatest logit.
            top_ps: float64 ``[S]``, above 0 and below 1; the share, of the weights of the tokens that count.

        Returns:
            ids, int64 ``[S]``; of a row whose greatest logit is NaN or infinite -1.
        """
        ...

    def draw(
        self,
        rows: Sequence[npt.NDArray[np.float32]],
        temperatures: npt.NDArray[np.float64],
        least: npt.NDArray[np.float32],
        last: npt.NDArray[np.int64],
        uniforms: npt.NDArray[np.float64],
    ) -> npt.NDArray[np.int64]:
        """A token of every row, drawn by a number: where the running sum of the weights, in order of ids, passes its
        share of the whole sum. A token without weight is never drawn.

        Args:
            temperatures: float64 ``[S]``, above 0.
            least: float32 ``[S]``; only tokens with a greater logit take part, and of those with this logit the ones
                up to id ``last``. It is not above the row's greatest logit.
            last: int64 ``[S]``, up to V.
            uniforms: float64 ``[S]``, in [0, 1).

        Returns:
            ids, int64 ``[S]``; of a row whose greatest logit is NaN or infinite -1.
        """
        ...


@runtime_checkable
class SamplingExecutable(Executable, LogitOps, Protocol):
    """An executable that also chooses the tokens. Executables need not have this: NumPy does it else."""


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
