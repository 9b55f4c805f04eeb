"""Qwen2 and Qwen2.5: a pre-norm decoder whose query, key and value projections have a bias.

Reference: transformers ``models/qwen2/modeling_qwen2.py``.
"""

from __future__ import annotations

from modelhost.api.blocks import Attention, GatedMLP, PreNormLayer
from modelhost.api.model import DecoderLM, RotaryEmbedding

from .config import QwenConfig


class Qwen2(DecoderLM):
    config_class = QwenConfig

    def __init__(self, config: QwenConfig) -> None:
        rotary = RotaryEmbedding(config.rope_parameters, config.head_dim, config.max_position_embeddings)
        layers = [
            PreNormLayer(
                Attention.of(config, rotary, window=config.window(layer), qkv_bias=True, output_bias=False),
                GatedMLP.of(config),
                hidden_size=config.hidden_size,
                eps=config.rms_norm_eps,
            )
            for layer in range(config.num_hidden_layers)
        ]
        super().__init__(config, layers)
