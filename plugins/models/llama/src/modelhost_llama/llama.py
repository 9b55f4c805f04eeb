"""Llama 1 to 3 and Mistral: pre-norm decoders with grouped-query attention and a gated MLP.

References: transformers ``models/llama/modeling_llama.py`` and ``models/mistral/modeling_mistral.py``; for the order
of query and key rows in GGUF files llama.cpp ``conversion/llama.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from modelhost.api.blocks import Attention, GatedMLP, PreNormLayer
from modelhost.api.model import DecoderConfig, DecoderLM, RotaryEmbedding, Weight


class Llama(DecoderLM):
    def __init__(self, config: DecoderConfig) -> None:
        rotary = RotaryEmbedding(config.rope_parameters, config.head_dim, config.max_position_embeddings)
        layers = [
            PreNormLayer(
                Attention.of(config, rotary, window=self.window(config)),
                GatedMLP.of(config),
                hidden_size=config.hidden_size,
                eps=config.rms_norm_eps,
            )
            for _ in range(config.num_hidden_layers)
        ]
        super().__init__(config, layers)
        self._heads = {"q_proj": config.num_attention_heads, "k_proj": config.num_key_value_heads}

    def window(self, config: DecoderConfig) -> int | None:
        """Llama attends to all tokens, whatever its checkpoints say."""
        return None

    def gguf_transform(self, parameter: str) -> Callable[[Weight], Weight] | None:
        """GGUF files of this architecture store the query and key rows of a head as interleaved rotary pairs."""
        projection = parameter.split(".")[-2]
        return partial(_halves_from_pairs, heads=self._heads[projection]) if projection in self._heads else None


class Mistral(Llama):
    """Llama without biases, with a sliding window in every layer where the configuration has one."""

    def __init__(self, config: DecoderConfig) -> None:
        super().__init__(config.model_copy(update={"attention_bias": False, "mlp_bias": False}))

    def window(self, config: DecoderConfig) -> int | None:
        return config.sliding_window


def _halves_from_pairs(weight: Weight, *, heads: int) -> Weight:
    """Reorder the rows of every head from (0, h, 1, h+1, ...) to (0, 1, ..., h, h+1, ...), h being half a head."""
    order = np.arange(weight.shape[0]).reshape(heads, -1, 2).transpose(0, 2, 1).ravel()
    if len(weight.shape) > 1:
        return weight.rows(order)
    values = weight.blocks.reshape(weight.shape[0], -1)
    return replace(weight, blocks=values[order].ravel())
