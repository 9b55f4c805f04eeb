"""The reference backend: every op in NumPy, float32. Slow, obvious, and what all other backends are tested against."""

from __future__ import annotations

from .backend import ReferenceBackend
from .kernels import KERNELS

__all__ = ["KERNELS", "ReferenceBackend"]
