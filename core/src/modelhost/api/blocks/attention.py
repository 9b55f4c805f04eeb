"""Grouped-query attention over the paged cache."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from modelhost.graph import ops
from modelhost.graph.cache import CacheSpec
from modelhost.graph.tensor import State, Tensor

from ..module import Module
from ..rope import RotaryEmbedding
from ..step import Step
from .linear import Linear
from .norm import RMSNorm

if TYPE_CHECKING:
    from ..config import DecoderConfig


class Attention(Module):
    """Causal self-attention with grouped queries.

    Args:
        hidden_size: features of the layer's input and output.
        heads: query heads.
        kv_heads: key/value heads, a divisor of ``heads``.
        head_dim: features of a head.
        rotary: rotates queries and keys; layers with equal positions share one object.
        scale: of the scores; ``head_dim ** -0.5`` by default.
        window: tokens that a query sees, itself included; all by default.
        soft_cap: bound of the scores; none by default.
        qkv_bias: the query, key and value projections have a bias.
        output_bias: the output projection has a bias.
        q_norm: normalises each query head before rotation.
        k_norm: normalises each key head before rotation.
    """

    def __init__(
        self,
        *,
        hidden_size: int,
        heads: int,
        kv_heads: int,
        head_dim: int,
        rotary: RotaryEmbedding,
        scale: float | None = None,
        window: int | None = None,
        soft_cap: float | None = None,
        qkv_bias: bool = False,
        output_bias: bool = False,
        q_norm: RMSNorm | None = None,
        k_norm: RMSNorm | None = None,
    ) -> None:
        self.q_proj = Linear(hidden_size, heads * head_dim, bias=qkv_bias, sharding="column")
        self.k_proj = Linear(hidden_size, kv_heads * head_dim, bias=qkv_bias, sharding="column")
        self.v_proj = Linear(hidden_size, kv_heads * head_dim, bias=qkv_bias, sharding="column")
        self.o_proj = Linear(heads * head_dim, hidden_size, bias=output_bias, sharding="row")
        self.q_norm = q_norm
        self.k_norm = k_norm
        self.cache = State("", CacheSpec(kv_heads, head_dim, head_dim, window))
        self._heads, self._kv_heads, self._head_dim = heads, kv_heads, head_dim
        self._rotary = rotary
        self._scale = head_dim**-0.5 if scale is None else scale
        self._soft_cap = soft_cap

    @classmethod
    def of(
        cls,
        config: DecoderConfig,
        rotary: RotaryEmbedding,
        *,
        scale: float | None = None,
        window: int | None = None,
        soft_cap: float | None = None,
        qkv_bias: bool | None = None,
        output_bias: bool | None = None,
        q_norm: RMSNorm | None = None,
        k_norm: RMSNorm | None = None,
    ) -> Self:
        """With the sizes of ``config``, and its ``attention_bias`` where a bias is not given."""
        return cls(
            hidden_size=config.hidden_size,
            heads=config.num_attention_heads,
            kv_heads=config.num_key_value_heads,
            head_dim=config.head_dim,
            rotary=rotary,
            scale=scale,
            window=window,
            soft_cap=soft_cap,
            qkv_bias=config.attention_bias if qkv_bias is None else qkv_bias,
            output_bias=config.attention_bias if output_bias is None else output_bias,
            q_norm=q_norm,
            k_norm=k_norm,
        )

    def __call__(self, x: Tensor, step: Step) -> Tensor:
        query = ops.reshape(self.q_proj(x), shape=step.shape(self._heads, self._head_dim))
        attended = self._attended(query, x, step)
        return self.o_proj(ops.reshape(attended, shape=step.shape(self._heads * self._head_dim)))

    def _attended(self, q: Tensor, x: Tensor, step: Step) -> Tensor:
        """What queries ``[T, heads, head_dim]``, not yet normalised, see in ``x`` and all before it."""
        k = ops.reshape(self.k_proj(x), shape=step.shape(self._kv_heads, self._head_dim))
        v = ops.reshape(self.v_proj(x), shape=step.shape(self._kv_heads, self._head_dim))
        q = self._rotary(self.q_norm(q) if self.q_norm else q, step)
        k = self._rotary(self.k_norm(k) if self.k_norm else k, step)
        return self._attend(q, k, v, step)

    def _attend(self, q: Tensor, k: Tensor, v: Tensor, step: Step) -> Tensor:
        ops.write_cache(k, v, self.cache, step.slot_mapping(self.cache))
        return ops.attention(
            q,
            self.cache,
            step.block_table(self.cache),
            step.sequence_starts,
            step.context_lengths,
            scale=self._scale,
            soft_cap=self._soft_cap,
        )
