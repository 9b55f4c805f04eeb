"""What a layer keeps between steps. A model declares it, the engine allocates and addresses it."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

from modelhost.api.errors import GraphError

from .tensor import ITEM_SIZES, DType

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Int = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class CacheSpec:
    """Paged keys and values of one attention layer.

    Attributes:
        kv_heads: number of key/value heads.
        key_dim: size of a key.
        value_dim: size of a value.
        window: tokens that a query can see, itself included; ``None`` means all.
        latent: only keys are stored; a value is the first ``value_dim`` numbers of its key (DeepSeek-V2's latent
            attention).
        stride: there is one entry for every ``stride`` tokens: entry e is written with token ``(e+1) * stride - 1``,
            and from that token on it is seen. An entry takes the place that a token takes in other caches.

    Raises:
        GraphError: on construction, when the cache has both a window and a stride.
    """

    kv_heads: int
    key_dim: int
    value_dim: int
    window: int | None = None
    latent: bool = False
    stride: int = 1

    def __post_init__(self) -> None:
        if self.stride < 1 or (self.stride > 1 and self.window is not None):
            raise GraphError(f"a cache has a stride of at least 1, and not both a stride and a window, got {self}")

    @property
    def group(self) -> str:
        """Layers of one group keep and free the same tokens, so they share a block table."""
        if self.stride > 1:
            return f"strided_{self.stride}"
        return "full" if self.window is None else f"sliding_{self.window}"

    def bytes_per_token(self, dtype: DType) -> int:
        """Bytes that one token, or with a stride one entry, takes in one layer."""
        stored = self.key_dim if self.latent else self.key_dim + self.value_dim
        return self.kv_heads * stored * ITEM_SIZES[dtype]


@dataclass(frozen=True, slots=True)
class RecurrentSpec:
    """A state of fixed size for each sequence, float32: that of a linear attention or of a causal convolution.

    A step reads the state of a sequence from one slot and writes it to another, or to the same. So a slot that is only
    read is a snapshot, which several sequences can start from.

    Attributes:
        shape: of the state of one sequence.
    """

    shape: tuple[int, ...]

    @property
    def group(self) -> str:
        """All recurrent states of a sequence are read and written together."""
        return "recurrent"

    @property
    def bytes_per_slot(self) -> int:
        """Bytes of the state of one sequence."""
        return prod(self.shape) * ITEM_SIZES["float32"]


def block_entries(block_size: int, stride: int = 1) -> int:
    """Entries in a block of a cache with this stride. Its blocks stand for ``block_size`` tokens, or for one entry.

    So the entries of any number of whole blocks of tokens fill whole blocks, if one of the two sizes divides the other.
    """
    return max(1, block_size // stride)


def entry_slots(table: Int, positions: Int, block_size: int, stride: int = 1) -> Int:
    """Where the tokens of one sequence put their entries: slots ``block * block_entries + offset``.

    A token that completes no entry is given slot 0, which is in the block that is never read.

    Args:
        table: int32, the sequence's blocks in order.
        positions: int32 ``[T]``.

    Returns:
        int32 ``[T]``.
    """
    size = block_entries(block_size, stride)
    entries = positions // stride
    slots: Int = (table[entries // size] * size + entries % size) * ((positions + 1) % stride == 0)
    return slots
