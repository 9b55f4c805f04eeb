"""Multi-head latent attention (DeepSeek-V2, 2024), optionally over the tokens that an indexer chooses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, Self

from modelhost.graph import ops
from modelhost.graph.cache import CacheSpec
from modelhost.graph.tensor import State, Tensor

from ..module import Module
from ..rope import RotaryEmbedding
from ..step import Step
from .linear import Linear
from .norm import LayerNorm, RMSNorm

if TYPE_CHECKING:
    from ..latent_config import IndexedAttentionConfig, LatentAttentionConfig


class TokenSelection(Protocol):
    """Chooses the tokens that attention looks at."""

    def __call__(self, x: Tensor, query: Tensor, step: Step) -> Tensor:
        """Positions, int32 ``[T, S]``, -1 for none.

        Args:
            x: input of the layer, ``[T, hidden_size]``.
            query: compressed query, ``[T, query_rank]``.
        """
        ...


class LatentAttention(Module):
    """Causal self-attention that caches one latent for each token, and a rotated part that all heads share.

    Args:
        hidden_size: features of the layer's input and output.
        heads: attention heads.
        nope_dim: features of a head's query and key that are not rotated.
        rope_dim: features of a head's query, and of the shared part of its key, that are rotated.
        value_dim: features of a head's value.
        latent_dim: features of a latent.
        query_rank: features of the compressed query; ``None`` where queries are projected directly.
        rotary: of size ``rope_dim``; ``None`` leaves that part as it is.
        scale: of the scores; ``(nope_dim + rope_dim) ** -0.5`` times ``rotary.score_factor`` by default.
        eps: of the norms of query and latent.
        bias: the compressing projections and the output projection have a bias.
        indexer: chooses the tokens that are attended to; all by default. Needs a ``query_rank``.
        shared_indexer: an earlier layer's indexer, whose choice of the step is used again.
    """

    def __init__(
        self,
        *,
        hidden_size: int,
        heads: int,
        nope_dim: int,
        rope_dim: int,
        value_dim: int,
        latent_dim: int,
        query_rank: int | None,
        rotary: RotaryEmbedding | None,
        scale: float | None = None,
        eps: float = 1e-6,
        bias: bool = False,
        indexer: Indexer | None = None,
        shared_indexer: TokenSelection | None = None,
    ) -> None:
        size = heads * (nope_dim + rope_dim)
        if query_rank is None:
            self.q_proj = Linear(hidden_size, size, sharding="column")
        else:
            self.q_a_proj = Linear(hidden_size, query_rank, bias=bias)
            self.q_a_layernorm = RMSNorm(query_rank, eps=eps)
            self.q_b_proj = Linear(query_rank, size, sharding="column")
        self.kv_a_proj_with_mqa = Linear(hidden_size, latent_dim + rope_dim, bias=bias)
        self.kv_a_layernorm = RMSNorm(latent_dim, eps=eps)
        self.kv_b_proj = Linear(latent_dim, heads * (nope_dim + value_dim), sharding="column")
        self.o_proj = Linear(heads * value_dim, hidden_size, bias=bias, sharding="row")
        self.indexer = indexer
        self.cache = State("", CacheSpec(1, latent_dim + rope_dim, latent_dim, latent=True))
        self._selection: TokenSelection | None = indexer or shared_indexer
        self._heads, self._nope, self._rope, self._value = heads, nope_dim, rope_dim, value_dim
        self._latent, self._query_rank, self._rotary = latent_dim, query_rank, rotary
        factor = 1.0 if rotary is None else rotary.score_factor
        self._scale = (nope_dim + rope_dim) ** -0.5 * factor if scale is None else scale

    @classmethod
    def of(
        cls,
        config: LatentAttentionConfig,
        rotary: RotaryEmbedding | None,
        *,
        indexer: Indexer | None = None,
        shared_indexer: TokenSelection | None = None,
    ) -> Self:
        """With the sizes and ``attention_bias`` of ``config``; the norms of query and latent have an eps of 1e-6."""
        return cls(
            hidden_size=config.hidden_size,
            heads=config.num_attention_heads,
            nope_dim=config.qk_nope_head_dim,
            rope_dim=config.qk_rope_head_dim,
            value_dim=config.v_head_dim,
            latent_dim=config.kv_lora_rank,
            query_rank=config.q_lora_rank,
            rotary=rotary,
            bias=config.attention_bias,
            indexer=indexer,
            shared_indexer=shared_indexer,
        )

    def __call__(self, x: Tensor, step: Step) -> Tensor:
        compressed = x if self._query_rank is None else self.q_a_layernorm(self.q_a_proj(x))
        query = self._query(compressed, step)
        ops.write_cache(self._key(x, step), None, self.cache, step.slot_mapping(self.cache))
        selected = None if self._selection is None else self._selection(x, compressed, step)
        attended = ops.latent_attention(
            query,
            self.kv_b_proj.weight,
            self.cache,
            step.block_table(self.cache),
            step.sequence_starts,
            step.context_lengths,
            selected,
            scale=self._scale,
            value_dim=self._value,
        )
        return self.o_proj(ops.reshape(attended, shape=step.shape(self._heads * self._value)))

    def _query(self, compressed: Tensor, step: Step) -> Tensor:
        projection = self.q_proj if self._query_rank is None else self.q_b_proj
        query = ops.reshape(projection(compressed), shape=step.shape(self._heads, self._nope + self._rope))
        if self._rotary is None:
            return query
        nope, rotated = ops.split(query, sizes=(self._nope, self._rope))
        return ops.concatenate(nope, self._rotary(rotated, step))

    def _key(self, x: Tensor, step: Step) -> Tensor:
        """What is cached: latent and rotated part, ``[T, 1, latent_dim + rope_dim]``."""
        latent, rotated = ops.split(self.kv_a_proj_with_mqa(x), sizes=(self._latent, self._rope))
        latent = ops.reshape(self.kv_a_layernorm(latent), shape=step.shape(1, self._latent))
        rotated = ops.reshape(rotated, shape=step.shape(1, self._rope))
        return ops.concatenate(latent, rotated if self._rotary is None else self._rotary(rotated, step))


class Indexer(Module):
    """The lightning indexer (DeepSeek-V3.2, 2025): chooses the tokens that sparse attention looks at.

    In a step it chooses once; a later call, by a layer that shares it, returns the same choice.

    Args:
        hidden_size: features of the layer's input.
        query_rank: features of the compressed query.
        heads: of the indexer.
        head_dim: features of a head; as many of the first as ``rotary`` turns are rotated.
        top_k: tokens to choose.
    """

    def __init__(
        self, *, hidden_size: int, query_rank: int, heads: int, head_dim: int, top_k: int, rotary: RotaryEmbedding
    ) -> None:
        self.wq_b = Linear(query_rank, heads * head_dim)
        self.wk = Linear(hidden_size, head_dim)
        self.k_norm = LayerNorm(head_dim, eps=1e-6)
        self.weights_proj = Linear(hidden_size, heads)
        self.cache = State("", CacheSpec(1, head_dim, head_dim, latent=True))
        self._heads, self._head_dim, self._top_k, self._rotary = heads, head_dim, top_k, rotary

    @classmethod
    def of(cls, config: IndexedAttentionConfig, rotary: RotaryEmbedding) -> Self:
        """With the sizes of ``config``."""
        return cls(
            hidden_size=config.hidden_size,
            query_rank=config.q_lora_rank,
            heads=config.index_n_heads,
            head_dim=config.index_head_dim,
            top_k=config.index_topk,
            rotary=rotary,
        )

    def __call__(self, x: Tensor, query: Tensor, step: Step) -> Tensor:
        return step.shared(self, lambda: self._choose(x, query, step))

    def _choose(self, x: Tensor, query: Tensor, step: Step) -> Tensor:
        key = ops.reshape(self.k_norm(self.wk(x)), shape=step.shape(1, self._head_dim))
        ops.write_cache(self._rotary(key, step), None, self.cache, step.slot_mapping(self.cache))
        heads = ops.reshape(self.wq_b(query), shape=step.shape(self._heads, self._head_dim))
        return ops.index_top_k(
            self._rotary(heads, step),
            self.weights_proj(x),
            self.cache,
            step.block_table(self.cache),
            step.sequence_starts,
            step.context_lengths,
            top_k=self._top_k,
        )
