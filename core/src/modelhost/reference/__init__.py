"""The reference backend: every op in NumPy, float32. Slow, obvious, and what all other backends are tested against."""

from __future__ import annotations

from . import attention, compressed, kernels, latent, moe, recurrent, streams
from .backend import ReferenceBackend
from .registry import KERNELS

__all__ = ["KERNELS", "ReferenceBackend", "attention", "compressed", "kernels", "latent", "moe", "recurrent", "streams"]
