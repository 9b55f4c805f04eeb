"""What a layer keeps between steps. A model declares it, the engine allocates and addresses it."""

from __future__ import annotations

from dataclasses import dataclass

from .tensor import ITEM_SIZES, DType


@dataclass(frozen=True, slots=True)
class CacheSpec:
    """Paged keys and values of one attention layer.

    Attributes:
        kv_heads: number of key/value heads.
        key_dim: size of a key.
        value_dim: size of a value.
        window: tokens that a query can see, itself included; ``None`` means all.
    """

    kv_heads: int
    key_dim: int
    value_dim: int
    window: int | None = None

    @property
    def group(self) -> str:
        """Layers of one group keep and free the same tokens, so they share a block table."""
        return "full" if self.window is None else f"sliding_{self.window}"

    def bytes_per_token(self, dtype: DType) -> int:
        """Bytes that one token takes in one layer."""
        return self.kv_heads * (self.key_dim + self.value_dim) * ITEM_SIZES[dtype]
