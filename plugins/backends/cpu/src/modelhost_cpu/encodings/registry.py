"""Which packing an encoding of a checkpoint gets."""

from __future__ import annotations

from functools import cache

from .packing import Packing
from .plain import Plain


@cache
def packings() -> dict[str, Packing]:
    """Encodings that are computed on as they are."""
    return {name: Plain(name) for name in ("f32", "f16", "bf16")}


def packing_for(encoding: str, exact: bool) -> Packing:
    """The packing of ``encoding``; an encoding without one is decoded to float32, or bfloat16 unless ``exact``."""
    return packings().get(encoding) or Plain("f32" if exact else "bf16")
