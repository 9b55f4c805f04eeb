"""Gemma 2: sandwich norms, capped scores and logits, a sliding window in every other layer.

References: transformers ``models/gemma2/modeling_gemma2.py``; for what GGUF files leave out llama.cpp
``src/models/gemma2.cpp``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from modelhost.api.blocks import Attention
from modelhost.api.model import (
    CheckpointInfo,
    DecoderConfig,
    DecoderLM,
    LayerType,
    MixedAttentionConfig,
    PositiveFloat,
    PositiveInt,
    RotaryEmbedding,
)

from .gemma import GemmaConfig
from .sandwich import GGUF_NAMES, SandwichLayer


class Gemma2Config(GemmaConfig, MixedAttentionConfig):
    gguf_fields: ClassVar[Mapping[str, str]] = {
        **DecoderConfig.gguf_fields,
        "attn_logit_softcapping": "attn_logit_softcapping",
        "final_logit_softcapping": "final_logit_softcapping",
    }

    query_pre_attn_scalar: PositiveFloat = 256
    sliding_window: PositiveInt | None = 4096
    attn_logit_softcapping: PositiveFloat | None = 50.0
    final_logit_softcapping: PositiveFloat | None = 30.0

    @classmethod
    def gguf_values(cls, info: CheckpointInfo) -> dict[str, Any]:
        return query_scalar(super().gguf_values(info), layers_of_27b=46)

    def derived_layer_type(self, layer: int) -> LayerType:
        return "full_attention" if layer % 2 else "sliding_attention"


def query_scalar(fields: dict[str, Any], *, layers_of_27b: int) -> dict[str, Any]:
    """``fields`` with ``query_pre_attn_scalar``, which GGUF files leave out.

    It is the size of a head, but ``hidden_size / num_attention_heads`` in the 27B models, which are told by their
    number of layers.
    """
    large = fields.get("num_hidden_layers") == layers_of_27b
    if large and fields.get("hidden_size") and fields.get("num_attention_heads"):
        return {**fields, "query_pre_attn_scalar": fields["hidden_size"] // fields["num_attention_heads"]}
    return {**fields, "query_pre_attn_scalar": fields.get("head_dim", 256)}


class Gemma2(DecoderLM):
    config_class = Gemma2Config
    gguf_names = GGUF_NAMES

    def __init__(self, config: Gemma2Config) -> None:
        rotary = RotaryEmbedding(config.rope_parameters, config.head_dim, config.max_position_embeddings)
        layers = [
            SandwichLayer(
                config,
                Attention.of(
                    config,
                    rotary,
                    scale=config.query_pre_attn_scalar**-0.5,
                    window=config.window(layer),
                    soft_cap=config.attn_logit_softcapping,
                ),
            )
            for layer in range(config.num_hidden_layers)
        ]
        super().__init__(
            config,
            layers,
            weight_offset=config.norm_offset,
            embedding_scale=config.hidden_size**0.5,
            soft_cap=config.final_logit_softcapping,
        )
