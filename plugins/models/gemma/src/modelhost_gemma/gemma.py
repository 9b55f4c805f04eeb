"""Gemma 1: a pre-norm decoder with scaled embeddings and norms that store the difference of their weight to one.

Reference: transformers ``models/gemma/modeling_gemma.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from modelhost.api.blocks import Attention, GatedMLP, PreNormLayer
from modelhost.api.model import CheckpointInfo, DecoderConfig, DecoderLM, PositiveInt, RotaryEmbedding


class GemmaConfig(DecoderConfig):
    """What all Gemmas share.

    Attributes:
        norm_offset: added to the weights of norms. Hugging Face checkpoints store ``w``, GGUF files ``1 + w``.
    """

    head_dim: PositiveInt = 256
    tie_word_embeddings: bool = True
    norm_offset: float = 1.0
    use_bidirectional_attention: Literal[False] | None = None

    @classmethod
    def huggingface_fields(cls, raw: Mapping[str, Any]) -> dict[str, Any]:
        return {**super().huggingface_fields(raw), "hidden_act": _activation(raw)}

    @classmethod
    def gguf_values(cls, info: CheckpointInfo) -> dict[str, Any]:
        return {**super().gguf_values(info), "hidden_act": "gelu_tanh", "norm_offset": 0.0}


def _activation(raw: Mapping[str, Any]) -> Any:
    """The first checkpoints say ``hidden_act: gelu`` and mean the tanh approximation, as all others do."""
    if raw.get("hidden_activation") is not None:
        return raw["hidden_activation"]
    stated = raw.get("hidden_act")
    return "gelu_tanh" if stated in (None, "gelu") else stated


class Gemma(DecoderLM):
    config_class = GemmaConfig

    def __init__(self, config: GemmaConfig) -> None:
        rotary = RotaryEmbedding(config.rope_parameters, config.head_dim, config.max_position_embeddings)
        layers = [
            PreNormLayer(
                Attention.of(config, rotary),
                GatedMLP.of(config),
                hidden_size=config.hidden_size,
                eps=config.rms_norm_eps,
                weight_offset=config.norm_offset,
            )
            for _ in range(config.num_hidden_layers)
        ]
        super().__init__(config, layers, weight_offset=config.norm_offset, embedding_scale=config.hidden_size**0.5)
