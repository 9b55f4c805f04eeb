"""What the kernels of a backend are compared with: plain NumPy."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from modelhost.reference.kernels import ACTIVATIONS

__all__ = ["ACTIVATIONS", "decoder_of"]


def decoder_of(encoding: str) -> Callable[[Any], Any]:
    """``(uint8[..., bytes]) -> float32[..., values]`` of one of core's encodings."""
    decode: Callable[[Any], Any] = getattr(import_module("modelhost.weights.decode"), encoding)
    return decode
