"""The building blocks that model families share."""

from __future__ import annotations

from .attention import Attention
from .layer import PreNormLayer
from .linear import Embedding, Linear
from .mlp import GatedMLP
from .norm import RMSNorm

__all__ = ["Attention", "Embedding", "GatedMLP", "Linear", "PreNormLayer", "RMSNorm"]
