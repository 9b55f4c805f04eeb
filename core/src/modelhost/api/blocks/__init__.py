"""The building blocks that model families share."""

from __future__ import annotations

from .attention import Attention
from .latent_attention import Indexer, LatentAttention
from .layer import PreNormLayer
from .linear import Embedding, Linear
from .mlp import GatedMLP
from .moe import Experts, MoE, Router, Routing, StackedLinear
from .norm import LayerNorm, RMSNorm
from .recurrent import DeltaRule, ShortConvolution, logarithm_of_rates

__all__ = [
    "Attention",
    "DeltaRule",
    "Embedding",
    "Experts",
    "GatedMLP",
    "Indexer",
    "LatentAttention",
    "LayerNorm",
    "Linear",
    "MoE",
    "PreNormLayer",
    "RMSNorm",
    "Router",
    "Routing",
    "ShortConvolution",
    "StackedLinear",
    "logarithm_of_rates",
]
