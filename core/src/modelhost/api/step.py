"""The inputs of one step of a generating model."""

from __future__ import annotations

from collections.abc import Callable

from modelhost.graph.graph import Graph
from modelhost.graph.tensor import DType, Shape, State, Symbol, Tensor

__all__ = ["TOKENS", "Step"]

TOKENS = Symbol("T")
"""Tokens in the step, of all sequences together."""
SEQUENCES = Symbol("B")
"""Sequences in the step."""
LOGIT_ROWS = Symbol("S")
"""Tokens whose logits are wanted."""


class Step:
    """Hands out the step's inputs as tensors of the graph being traced. An input that is not asked for does not exist.

    Attributes:
        dtype: of activations.
    """

    def __init__(self, graph: Graph, dtype: DType) -> None:
        self.graph = graph
        self.dtype: DType = dtype
        self._shared: dict[object, Tensor] = {}

    def _input(self, name: str, *shape: Symbol) -> Tensor:
        return self.graph.inputs.setdefault(name, Tensor("int32", tuple(shape), name))

    @property
    def token_ids(self) -> Tensor:
        """int32 ``[T]``."""
        return self._input("token_ids", TOKENS)

    @property
    def positions(self) -> Tensor:
        """int32 ``[T]``, the place of each token in its sequence."""
        return self._input("positions", TOKENS)

    @property
    def lengths(self) -> Tensor:
        """int32 ``[T]``, the length of the token's sequence when it was first processed.

        The prompt's length for a prompt token, position + 1 for a generated one.
        """
        return self._input("lengths", TOKENS)

    @property
    def sequence_starts(self) -> Tensor:
        """int32 ``[B+1]``, the first row of each sequence, and T."""
        return self._input("sequence_starts", SEQUENCES + 1)

    @property
    def context_lengths(self) -> Tensor:
        """int32 ``[B]``, tokens of each sequence up to the end of this step."""
        return self._input("context_lengths", SEQUENCES)

    @property
    def logit_rows(self) -> Tensor:
        """int32 ``[S]``, the rows whose logits are wanted."""
        return self._input("logit_rows", LOGIT_ROWS)

    def slot_mapping(self, cache: State) -> Tensor:
        """int32 ``[T]``, where each token goes in the caches of this one's group."""
        return self._input(f"slot_mapping.{cache.spec.group}", TOKENS)

    def block_table(self, cache: State) -> Tensor:
        """int32 ``[B, blocks]``, the blocks of each sequence in the caches of this one's group."""
        group = cache.spec.group
        return self._input(f"block_table.{group}", SEQUENCES, Symbol(f"blocks.{group}"))

    def read_slots(self, state: State) -> Tensor:
        """int32 ``[B]``, the slots that recurrent layers read the sequences' states from."""
        return self._input(f"read_slots.{state.spec.group}", SEQUENCES)

    def write_slots(self, state: State) -> Tensor:
        """int32 ``[B]``, the slots that recurrent layers write the sequences' states to."""
        return self._input(f"write_slots.{state.spec.group}", SEQUENCES)

    def shared(self, key: object, make: Callable[[], Tensor]) -> Tensor:
        """``make()``, computed once in the step for each ``key``."""
        if key not in self._shared:
            self._shared[key] = make()
        return self._shared[key]

    @staticmethod
    def shape(*dims: int) -> Shape:
        """``[T, *dims]``."""
        return (TOKENS, *dims)
