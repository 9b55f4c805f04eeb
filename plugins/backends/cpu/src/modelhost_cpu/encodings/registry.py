"""Which packing an encoding of a checkpoint gets."""

from __future__ import annotations

from functools import cache

from .packing import Packing
from .plain import Plain
from .small_blocks import SMALL_BLOCKS
from .super_blocks import SUPER_BLOCKS


@cache
def packings() -> dict[str, Packing]:
    """Encodings that are computed on as they are."""
    every: list[Packing] = [*map(Plain, ("f32", "f16", "bf16")), *SMALL_BLOCKS, *SUPER_BLOCKS]
    return {packing.name: packing for packing in every}


def packing_for(encoding: str, exact: bool) -> Packing:
    """The packing of ``encoding``: unless ``exact``, float32 values become bfloat16.

    An encoding without a packing is decoded to float32 first.
    """
    packing = packings().get(encoding, packings()["f32"])
    return packings()["bf16"] if packing.name == "f32" and not exact else packing


def source_of(encoding: str) -> str:
    """What is packed of a weight of ``encoding``: its blocks, or its values as float32."""
    return encoding if encoding in packings() else "f32"
