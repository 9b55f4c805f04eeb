"""Gemma 3, text: sandwich norms, normalised queries and keys, five sliding-window layers to each full one.

Full and sliding layers rotate with different bases. References: transformers ``models/gemma3/modeling_gemma3.py``; for
what GGUF files leave out llama.cpp ``src/models/gemma3.cpp``.
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
    RopeParameters,
    RotaryEmbedding,
)

from .gemma import GemmaConfig
from .gemma2 import query_scalar
from .sandwich import GGUF_NAMES, SandwichLayer, norm

FULL_THETA, SLIDING_THETA = 1_000_000.0, 10_000.0


class Gemma3Config(GemmaConfig, MixedAttentionConfig):
    """``rope_parameters`` is that of the full layers.

    Attributes:
        sliding_rope_parameters: of the sliding layers.
        sliding_window_pattern: without ``layer_types``, each layer of this multiple is a full one, counted from 1.
    """

    gguf_fields: ClassVar[Mapping[str, str]] = {
        **DecoderConfig.gguf_fields,
        "final_logit_softcapping": "final_logit_softcapping",
        "sliding_window_pattern": "attention.sliding_window_pattern",
    }

    query_pre_attn_scalar: PositiveFloat = 256
    sliding_window: PositiveInt | None = 4096
    sliding_window_pattern: PositiveInt = 6
    sliding_rope_parameters: RopeParameters
    final_logit_softcapping: PositiveFloat | None = None

    def check(self) -> None:
        super().check()
        self.sliding_rope_parameters.rotated(self.head_dim)

    @classmethod
    def huggingface_fields(cls, raw: Mapping[str, Any]) -> dict[str, Any]:
        nested = raw.get("rope_parameters") or {}
        full = {"rope_theta": raw.get("rope_theta") or FULL_THETA, **(nested.get("full_attention") or {})}
        sliding = {"rope_theta": raw.get("rope_local_base_freq") or SLIDING_THETA}
        flat = {**raw, "rope_parameters": {**full, **(raw.get("rope_scaling") or {})}, "rope_scaling": None}
        return {
            **super().huggingface_fields(flat),
            "sliding_rope_parameters": sliding | (nested.get("sliding_attention") or {}),
        }

    @classmethod
    def huggingface_paths(cls, raw: Mapping[str, Any]) -> dict[str, str]:
        scaled = bool(raw.get("rope_scaling"))
        return {
            "rope_parameters": "rope_scaling" if scaled else "rope_parameters.full_attention",
            "sliding_rope_parameters": "rope_parameters.sliding_attention",
        }

    @classmethod
    def gguf_values(cls, info: CheckpointInfo) -> dict[str, Any]:
        fields = query_scalar(super().gguf_values(info), layers_of_27b=62)
        fields["rope_parameters"].setdefault("rope_theta", FULL_THETA)
        theta = info.config.get(f"{info.architecture}.rope.freq_base_swa", SLIDING_THETA)
        fields["sliding_rope_parameters"] = {"rope_theta": theta}
        fields.setdefault("sliding_window", None)
        pattern = fields.get("sliding_window_pattern")
        if isinstance(pattern, list):
            del fields["sliding_window_pattern"]
            fields["layer_types"] = ["sliding_attention" if sliding else "full_attention" for sliding in pattern]
        return fields

    def derived_layer_type(self, layer: int) -> LayerType:
        return "sliding_attention" if (layer + 1) % self.sliding_window_pattern else "full_attention"


class Gemma3(DecoderLM):
    config_class = Gemma3Config
    gguf_names = GGUF_NAMES

    def __init__(self, config: Gemma3Config) -> None:
        ropes = {
            "full_attention": config.rope_parameters,
            "sliding_attention": config.sliding_rope_parameters,
        }
        rotary = {
            kind: RotaryEmbedding(rope, config.head_dim, config.max_position_embeddings) for kind, rope in ropes.items()
        }
        layers = [
            SandwichLayer(
                config,
                Attention.of(
                    config,
                    rotary[config.layer_type(layer)],
                    scale=config.query_pre_attn_scalar**-0.5,
                    window=config.window(layer),
                    q_norm=norm(config, config.head_dim),
                    k_norm=norm(config, config.head_dim),
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
