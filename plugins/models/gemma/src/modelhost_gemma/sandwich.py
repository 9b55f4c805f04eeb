"""The layer of Gemma 2 and 3."""

from __future__ import annotations

from collections.abc import Mapping

from modelhost.api.blocks import Attention, GatedMLP, RMSNorm
from modelhost.api.model import GGUF_DECODER_NAMES, Module, Step, Tensor

from .gemma import GemmaConfig

GGUF_NAMES: Mapping[str, str] = GGUF_DECODER_NAMES | {
    "model.layers.{}.post_attention_layernorm": "blk.{}.post_attention_norm",
    "model.layers.{}.pre_feedforward_layernorm": "blk.{}.ffn_norm",
    "model.layers.{}.post_feedforward_layernorm": "blk.{}.post_ffw_norm",
}


class SandwichLayer(Module):
    """``x += norm(attention(norm(x)))``, then ``x += norm(mlp(norm(x)))``."""

    def __init__(self, config: GemmaConfig, attention: Attention) -> None:
        self.input_layernorm = norm(config, config.hidden_size)
        self.self_attn = attention
        self.post_attention_layernorm = norm(config, config.hidden_size)
        self.pre_feedforward_layernorm = norm(config, config.hidden_size)
        self.mlp = GatedMLP.of(config)
        self.post_feedforward_layernorm = norm(config, config.hidden_size)

    def __call__(self, x: Tensor, step: Step) -> Tensor:
        x = x + self.post_attention_layernorm(self.self_attn(self.input_layernorm(x), step))
        return x + self.post_feedforward_layernorm(self.mlp(self.pre_feedforward_layernorm(x)))


def norm(config: GemmaConfig, size: int) -> RMSNorm:
    """A norm over ``size`` values whose weight is stored as ``config`` says."""
    return RMSNorm(size, eps=config.rms_norm_eps, weight_offset=config.norm_offset)
