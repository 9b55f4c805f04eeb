"""GLM-4.7-Flash and GLM-5: DeepSeek-V3's latent attention and experts, in GLM-5 over tokens that an indexer chooses.

References: transformers ``models/glm4_moe_lite`` and ``models/glm_moe_dsa``, llama.cpp ``conversion/glm.py``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

from pydantic import NonNegativeInt

from modelhost.api.blocks import GatedMLP, Indexer, LatentAttention, MoE, PreNormLayer
from modelhost.api.model import (
    GGUF_DECODER_NAMES,
    GGUF_LATENT_NAMES,
    GGUF_MOE_NAMES,
    CheckpointInfo,
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

_KINDS = {"F": "full", "S": "shared"}


class Glm4MoeLiteConfig(LatentAttentionConfig, MoEConfig):
    scoring_func: Literal["sigmoid"] = "sigmoid"
    topk_method: Literal["noaux_tc"] = "noaux_tc"
    norm_topk_prob: bool = True
    routed_scaling_factor: PositiveFloat = 1.8
    first_k_dense_replace: NonNegativeInt = 1


class GlmMoeDsaConfig(IndexedAttentionConfig, MoEConfig):
    """GLM-5.

    Attributes:
        indexer_types: which layers have an indexer of their own (``full``); the others use the choice of the last one.
    """

    gguf_fields: ClassVar[Mapping[str, str]] = {**MoEConfig.gguf_fields, **IndexedAttentionConfig.gguf_fields}

    scoring_func: Literal["sigmoid"] = "sigmoid"
    topk_method: Literal["noaux_tc"] = "noaux_tc"
    norm_topk_prob: bool = True
    routed_scaling_factor: PositiveFloat = 2.5
    first_k_dense_replace: NonNegativeInt = 3
    rope_interleave: Literal[True] = True
    indexer_types: tuple[Literal["full", "shared"], ...]

    @classmethod
    def huggingface_fields(cls, raw: Mapping[str, Any]) -> dict[str, Any]:
        fields = super().huggingface_fields(raw)
        return fields if raw.get("indexer_types") is not None else fields | {"indexer_types": _older_types(raw)}

    @classmethod
    def gguf_values(cls, info: CheckpointInfo) -> dict[str, Any]:
        fields = super().gguf_values(info)
        own = info.config.get(f"{info.architecture}.attention.indexer.types", [True] * fields["num_hidden_layers"])
        return fields | {"indexer_types": ["full" if full else "shared" for full in own]}

    def check(self) -> None:
        super().check()
        types = self.indexer_types
        if len(types) != self.num_hidden_layers:
            raise ValueError(f"indexer_types has {len(types)} entries, num_hidden_layers is {self.num_hidden_layers}")
        if types[0] == "shared":
            raise ValueError("indexer_types starts with 'shared', but no layer before it has an indexer")


def _older_types(raw: Mapping[str, Any]) -> list[str]:
    """From a pattern of letters, or from the distance of layers with an indexer and where it starts to count."""
    if raw.get("index_topk_pattern") is not None:
        return [_KINDS.get(letter, letter) for letter in raw["index_topk_pattern"]]
    layers, every, offset = (
        raw.get("num_hidden_layers"),
        raw.get("index_topk_freq"),
        raw.get("index_skip_topk_offset", 2),
    )
    count = layers if isinstance(layers, int) else 0
    return ["shared" if max(layer - offset + 1, 0) % max(every or 1, 1) else "full" for layer in range(count)]


class Glm4MoeLite(DecoderLM):
    config_class: ClassVar[type[ModelConfig]] = Glm4MoeLiteConfig
    gguf_names = GGUF_DECODER_NAMES | GGUF_LATENT_NAMES | GGUF_MOE_NAMES

    def __init__(self, config: Glm4MoeLiteConfig | GlmMoeDsaConfig) -> None:
        size, positions = config.qk_rope_head_dim, config.max_position_embeddings
        rotary = RotaryEmbedding(config.rope_parameters, size, positions, interleaved=config.rope_interleave)
        layers = [
            PreNormLayer(
                attention,
                MoE.of(config) if config.is_sparse(layer) else GatedMLP.of(config),
                hidden_size=config.hidden_size,
                eps=config.rms_norm_eps,
            )
            for layer, attention in enumerate(_attention(config, rotary))
        ]
        super().__init__(config, layers)
        self.ignored_tensors = (*self.ignored_tensors, *config.next_token_tensors)

    def gguf_pieces(self, parameter: str) -> Pieces | None:
        return latent_pieces(self.gguf_name(parameter))


class GlmMoeDsa(Glm4MoeLite):
    config_class = GlmMoeDsaConfig


def _attention(config: Glm4MoeLiteConfig | GlmMoeDsaConfig, rotary: RotaryEmbedding) -> Sequence[LatentAttention]:
    if not isinstance(config, GlmMoeDsaConfig):
        return [LatentAttention.of(config, rotary) for _ in range(config.num_hidden_layers)]
    layers: list[LatentAttention] = []
    last: Indexer | None = None
    for kind in config.indexer_types:
        own = Indexer.of(config, rotary) if kind == "full" else None
        last = own or last
        layers.append(LatentAttention.of(config, rotary, indexer=own, shared_indexer=last))
    return layers
