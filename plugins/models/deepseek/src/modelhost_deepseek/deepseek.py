"""DeepSeek-V2, V3 and V3.2: latent attention, first layers with an MLP, the others with routed and shared experts.

References: transformers ``models/deepseek_v2``, ``deepseek_v3`` and ``deepseek_v32``; for GGUF files llama.cpp
``conversion/deepseek.py`` and ``src/models/deepseek2.cpp``. Papers: DeepSeek-V2 and DeepSeek-V3 (2024), V3.2 (2025).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

from pydantic import NonNegativeInt

from modelhost.api.blocks import GatedMLP, Indexer, LatentAttention, MoE, PreNormLayer
from modelhost.api.model import (
    GGUF_DECODER_NAMES,
    GGUF_LATENT_NAMES,
    GGUF_MOE_NAMES,
    DecoderLM,
    IndexedAttentionConfig,
    LatentAttentionConfig,
    ModelConfig,
    MoEConfig,
    Pieces,
    PositiveFloat,
    RotaryEmbedding,
    latent_pieces,
)


class DeepseekV2Config(LatentAttentionConfig, MoEConfig):
    """Softmax scores, taken as weights as they are."""

    gguf_fields: ClassVar[Mapping[str, str]] = {**MoEConfig.gguf_fields, **LatentAttentionConfig.gguf_fields}

    scoring_func: Literal["softmax"] = "softmax"
    topk_method: Literal["greedy", "group_limited_greedy"] = "greedy"
    norm_topk_prob: Literal[False] = False


class DeepseekV3Config(LatentAttentionConfig, MoEConfig):
    """Sigmoid scores and a correction bias. GGUF files of V2 are read as this too, with the router that they state."""

    gguf_fields: ClassVar[Mapping[str, str]] = DeepseekV2Config.gguf_fields

    scoring_func: Literal["softmax", "sigmoid"] = "sigmoid"
    topk_method: Literal["greedy", "group_limited_greedy", "noaux_tc"] = "noaux_tc"
    norm_topk_prob: bool = True
    routed_scaling_factor: PositiveFloat = 2.5
    first_k_dense_replace: NonNegativeInt = 3


class DeepseekV32Config(IndexedAttentionConfig, DeepseekV3Config):
    """With an indexer, whose rotated pairs are two halves while those of attention are neighbours."""

    gguf_fields: ClassVar[Mapping[str, str]] = {**MoEConfig.gguf_fields, **IndexedAttentionConfig.gguf_fields}

    rope_interleave: Literal[True] = True


class DeepseekV3(DecoderLM):
    config_class: ClassVar[type[ModelConfig]] = DeepseekV3Config
    gguf_names = GGUF_DECODER_NAMES | GGUF_LATENT_NAMES | GGUF_MOE_NAMES

    def __init__(self, config: DeepseekV2Config | DeepseekV3Config) -> None:
        rotary = _rotary(config, interleaved=config.rope_interleave)
        halves = _rotary(config, interleaved=False)
        layers = [
            PreNormLayer(
                LatentAttention.of(
                    config,
                    rotary,
                    indexer=Indexer.of(config, halves) if isinstance(config, DeepseekV32Config) else None,
                ),
                MoE.of(config) if config.is_sparse(layer) else GatedMLP.of(config),
                hidden_size=config.hidden_size,
                eps=config.rms_norm_eps,
            )
            for layer in range(config.num_hidden_layers)
        ]
        super().__init__(config, layers)
        self.ignored_tensors = (*self.ignored_tensors, *config.next_token_tensors)

    def gguf_pieces(self, parameter: str) -> Pieces | None:
        return latent_pieces(self.gguf_name(parameter))


class DeepseekV2(DeepseekV3):
    config_class = DeepseekV2Config


class DeepseekV32(DeepseekV3):
    config_class = DeepseekV32Config


def _rotary(config: LatentAttentionConfig, *, interleaved: bool) -> RotaryEmbedding:
    size, positions = config.qk_rope_head_dim, config.max_position_embeddings
    return RotaryEmbedding(config.rope_parameters, size, positions, interleaved=interleaved)
