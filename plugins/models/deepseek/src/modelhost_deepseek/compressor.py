"""Pooling of tokens into entries of a cache, and the choice among them.

Source: transformers ``models/deepseek_v4/modeling_deepseek_v4.py``.
"""

from __future__ import annotations

from modelhost.api.backend import CacheSpec
from modelhost.api.blocks import Linear, RMSNorm
from modelhost.api.model import Module, Parameter, RotaryEmbedding, State, Step, Tensor
from modelhost.graph import ops

from .deepseek_v4_config import DeepseekV4Config


class _Compressor(Module):
    """Pools every ``stride`` tokens into one entry of a cache.

    Args:
        size: of an entry.
        parts: entries that a token has a part in.
    """

    def __init__(self, config: DeepseekV4Config, rotary: RotaryEmbedding, size: int, stride: int, parts: int) -> None:
        width = parts * size
        self.kv_proj = Linear(config.hidden_size, width)
        self.gate_proj = Linear(config.hidden_size, width)
        self.position_bias = Parameter((stride, width))
        self.kv_norm = RMSNorm(size, eps=config.rms_norm_eps)
        self.pending = State("", CacheSpec(1, width, width, parts * stride))
        self.entries = State("", CacheSpec(1, size, size, latent=True, stride=stride))
        self._size, self._width, self._stride, self._rotary = size, width, stride, rotary

    def _write_entries(self, x: Tensor, step: Step) -> None:
        values = ops.reshape(self.kv_proj(x), shape=step.shape(1, self._width))
        gates = ops.reshape(self.gate_proj(x), shape=step.shape(1, self._width))
        ops.write_cache(values, gates, self.pending, step.slot_mapping(self.pending))
        table = step.block_table(self.pending)
        pooled = ops.pool_windows(
            step.positions,
            self.position_bias,
            self.pending,
            table,
            step.sequence_starts,
            step.context_lengths,
            stride=self._stride,
        )
        entries = ops.reshape(self.kv_norm(pooled), shape=step.shape(1, self._size))
        entries = self._rotary(entries, step, offset=1 - self._stride)
        entries = entries if step.dtype == "float32" else ops.cast(entries, dtype=step.dtype)
        ops.write_cache(entries, None, self.entries, step.slot_mapping(self.entries))


class KeyCompressor(_Compressor):
    """Makes the entries that attention sees; when ``sparse``, an indexer chooses among them for each token."""

    def __init__(self, config: DeepseekV4Config, rotary: RotaryEmbedding, *, sparse: bool) -> None:
        stride, parts = (config.sparse_rate, 2) if sparse else (config.heavy_rate, 1)
        super().__init__(config, rotary, config.head_dim, stride, parts)
        self.indexer = _Indexer(config, rotary) if sparse else None

    def __call__(self, x: Tensor, query: Tensor, step: Step) -> Tensor | None:
        """The entries that each token may see; ``None`` for all that are complete."""
        self._write_entries(x, step)
        return None if self.indexer is None else self.indexer(x, query, step)


class _Indexer(_Compressor):
    """Chooses the entries with the highest scores, on smaller entries of its own."""

    def __init__(self, config: DeepseekV4Config, rotary: RotaryEmbedding) -> None:
        super().__init__(config, rotary, config.index_head_dim, config.sparse_rate, 2)
        self.q_b_proj = Linear(config.q_lora_rank, config.index_n_heads * config.index_head_dim)
        self.scorer = _Scorer(config)
        self._heads, self._top_k = config.index_n_heads, config.index_topk

    def __call__(self, x: Tensor, query: Tensor, step: Step) -> Tensor:
        self._write_entries(x, step)
        heads = ops.reshape(self.q_b_proj(query), shape=step.shape(self._heads, self._size))
        return ops.index_top_k(
            self._rotary(heads, step),
            self.scorer.weights_proj(x),
            self.entries,
            step.block_table(self.entries),
            step.sequence_starts,
            step.context_lengths,
            top_k=self._top_k,
        )


class _Scorer(Module):
    def __init__(self, config: DeepseekV4Config) -> None:
        self.weights_proj = Linear(config.hidden_size, config.index_n_heads)
