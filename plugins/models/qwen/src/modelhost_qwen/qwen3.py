"""Qwen3: a pre-norm decoder that normalises every query and key head before rotation.

Reference: transformers ``models/qwen3/modeling_qwen3.py``.
"""

from __future__ import annotations

from modelhost.api.blocks import Attention, GatedMLP, PreNormLayer, RMSNorm
from modelhost.api.model import DecoderLM, PositiveInt, RotaryEmbedding

from .config import QwenConfig


class Qwen3Config(QwenConfig):
    head_dim: PositiveInt = 128


class Qwen3(DecoderLM):
    config_class = Qwen3Config

    def __init__(self, config: Qwen3Config) -> None:
        rotary = RotaryEmbedding(config.rope_parameters, config.head_dim, config.max_position_embeddings)
        layers = [_layer(config, rotary, layer) for layer in range(config.num_hidden_layers)]
        super().__init__(config, layers)


def _layer(config: Qwen3Config, rotary: RotaryEmbedding, layer: int) -> PreNormLayer:
    attention = Attention.of(
        config,
        rotary,
        window=config.window(layer),
        q_norm=RMSNorm(config.head_dim, eps=config.rms_norm_eps),
        k_norm=RMSNorm(config.head_dim, eps=config.rms_norm_eps),
    )
    return PreNormLayer(attention, GatedMLP.of(config), hidden_size=config.hidden_size, eps=config.rms_norm_eps)
