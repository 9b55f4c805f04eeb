"""Qwen3 with experts: in some layers or all, the MLP is a mixture of experts without a shared one.

References: transformers ``models/qwen3_moe/modeling_qwen3_moe.py``, llama.cpp ``src/models/qwen3moe.cpp``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import NonNegativeInt

from modelhost.api.blocks import Attention, Experts, GatedMLP, MoE, PreNormLayer, RMSNorm, Router, Routing
from modelhost.api.model import (
    GGUF_DECODER_NAMES,
    GGUF_MOE_NAMES,
    CheckpointInfo,
    DecoderLM,
    LayerType,
    PositiveInt,
    RotaryEmbedding,
)

from .config import QwenConfig


class Qwen3MoeConfig(QwenConfig):
    """A window, where one is used, is that of all layers.

    Attributes:
        decoder_sparse_step: each layer of this multiple has experts, counted from 1.
        mlp_only_layers: layers without experts even so, counted from 0.
        norm_topk_prob: the weights of the chosen experts are made to add up to 1.
    """

    gguf_fields: ClassVar[Mapping[str, str]] = {
        **QwenConfig.gguf_fields,
        "num_experts": "expert_count",
        "num_experts_per_tok": "expert_used_count",
        "moe_intermediate_size": "expert_feed_forward_length",
    }

    num_experts: PositiveInt
    num_experts_per_tok: PositiveInt
    moe_intermediate_size: PositiveInt
    norm_topk_prob: bool = False
    decoder_sparse_step: PositiveInt = 1
    mlp_only_layers: tuple[NonNegativeInt, ...] | None = None

    @classmethod
    def huggingface_fields(cls, raw: Mapping[str, Any]) -> dict[str, Any]:
        return {**super().huggingface_fields(raw), "num_experts": raw.get("num_experts", raw.get("num_local_experts"))}

    @classmethod
    def gguf_values(cls, info: CheckpointInfo) -> dict[str, Any]:
        """GGUF files have experts in every layer, and llama.cpp always makes their weights add up to 1."""
        return {**super().gguf_values(info), "norm_topk_prob": True}

    def derived_layer_type(self, layer: int) -> LayerType:
        return "sliding_attention"

    def is_sparse(self, layer: int) -> bool:
        """Whether a layer, counted from 0, has experts."""
        return layer not in (self.mlp_only_layers or ()) and (layer + 1) % self.decoder_sparse_step == 0

    def check(self) -> None:
        super().check()
        if self.num_experts_per_tok > self.num_experts:
            raise ValueError(
                f"num_experts_per_tok {self.num_experts_per_tok} is more than num_experts {self.num_experts}"
            )


class Qwen3Moe(DecoderLM):
    config_class = Qwen3MoeConfig
    gguf_names = GGUF_DECODER_NAMES | GGUF_MOE_NAMES

    def __init__(self, config: Qwen3MoeConfig) -> None:
        rotary = RotaryEmbedding(config.rope_parameters, config.head_dim, config.max_position_embeddings)
        layers = [_layer(config, rotary, layer) for layer in range(config.num_hidden_layers)]
        super().__init__(config, layers)


def _layer(config: Qwen3MoeConfig, rotary: RotaryEmbedding, layer: int) -> PreNormLayer:
    attention = Attention.of(
        config,
        rotary,
        window=config.window(layer),
        q_norm=RMSNorm(config.head_dim, eps=config.rms_norm_eps),
        k_norm=RMSNorm(config.head_dim, eps=config.rms_norm_eps),
    )
    mlp = _moe(config) if config.is_sparse(layer) else GatedMLP.of(config)
    return PreNormLayer(attention, mlp, hidden_size=config.hidden_size, eps=config.rms_norm_eps)


def _moe(config: Qwen3MoeConfig) -> MoE:
    routing = Routing(config.num_experts_per_tok, renormalize=config.norm_topk_prob)
    hidden, inner, count = config.hidden_size, config.moe_intermediate_size, config.num_experts
    return MoE(Router(hidden, count, routing), Experts(hidden, inner, count, activation=config.hidden_act))
