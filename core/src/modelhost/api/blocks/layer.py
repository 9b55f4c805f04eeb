"""Decoder layers."""

from __future__ import annotations

from collections.abc import Callable

from modelhost.graph.tensor import Tensor

from ..module import Module
from ..step import Step
from .norm import RMSNorm


class PreNormLayer(Module):
    """``x += attention(norm(x))``, then ``x += mlp(norm(x))`` (Llama and most after it).

    Args:
        attention: such as :class:`~modelhost.api.blocks.Attention`.
        mlp: such as :class:`~modelhost.api.blocks.GatedMLP` or :class:`~modelhost.api.blocks.MoE`.
        hidden_size: features of ``x``.
        eps: of both norms.
        weight_offset: of both norms, as :class:`RMSNorm` takes it.
    """

    def __init__(
        self,
        attention: Callable[[Tensor, Step], Tensor],
        mlp: Callable[[Tensor], Tensor],
        *,
        hidden_size: int,
        eps: float,
        weight_offset: float = 0.0,
    ) -> None:
        self.input_layernorm = RMSNorm(hidden_size, eps=eps, weight_offset=weight_offset)
        self.self_attn = attention
        self.post_attention_layernorm = RMSNorm(hidden_size, eps=eps, weight_offset=weight_offset)
        self.mlp = mlp

    def __call__(self, x: Tensor, step: Step) -> Tensor:
        x = x + self.self_attn(self.input_layernorm(x), step)
        return x + self.mlp(self.post_attention_layernorm(x))
