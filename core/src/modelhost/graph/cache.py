"""What a layer keeps between steps. A model declares it, the engine allocates and addresses it."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from .tensor import ITEM_SIZES, DType


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
    """

    kv_heads: int
    key_dim: int
    value_dim: int
    window: int | None = None
    latent: bool = False

    @property
    def group(self) -> str:
        """Layers of one group keep and free the same tokens, so they share a block table."""
        return "full" if self.window is None else f"sliding_{self.window}"

    def bytes_per_token(self, dtype: DType) -> int:
        """Bytes that one token takes in one layer."""
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
