"""Weights of random blocks in every encoding that the backend packs."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType

from modelhost.api.backend import Weight
from modelhost.testing.oracles import decoder_of

SCALES = {
    "q4_0": (0,),
    "q4_1": (0, 2),
    "q5_0": (0,),
    "q5_1": (0, 2),
    "q8_0": (0,),
    "q2_k": (80, 82),
    "q3_k": (108,),
    "q4_k": (0, 2),
    "q5_k": (0, 2),
    "q6_k": (208,),
}
"""Where the blocks of an encoding have their float16 factors."""
PLAIN = ("f32", "f16", "bf16")


def block_sizes(encoding: str) -> tuple[int, int]:
    """Values and bytes of a block."""
    values, nbytes = GGML_QUANT_SIZES[GGMLQuantizationType[encoding.upper()]]
    return int(values), int(nbytes)


def weight_of(encoding: str, blocks: npt.NDArray[np.uint8], name: str = "weight") -> Weight:
    """Blocks ``[*leading, blocks, bytes of a block]`` as a weight."""
    values, _ = block_sizes(encoding)
    shape = (*blocks.shape[:-2], blocks.shape[-2] * values)
    decode = decoder_of(encoding)
    return Weight(name, encoding, shape, blocks.reshape(*blocks.shape[:-2], -1), decode)


def random_blocks(
    encoding: str, leading: tuple[int, ...], columns: int, seed: int = 0, magnitude: float = 0.01
) -> npt.NDArray[np.uint8]:
    """Blocks with random bits whose factors are normally distributed; plain numbers that bfloat16 holds exactly."""
    generator = np.random.default_rng(seed)
    values, nbytes = block_sizes(encoding)
    blocks = generator.integers(0, 256, (*leading, columns // values, nbytes), dtype=np.uint8)
    for place in SCALES.get(encoding, ()):
        set_factors(blocks, place, magnitude * generator.standard_normal(blocks.shape[:-1]))
    if encoding in PLAIN:
        numbers = bfloat16_values(generator.standard_normal((*leading, columns, 1)))
        converted = numbers.astype(np.float16) if encoding == "f16" else numbers
        blocks = np.ascontiguousarray(converted.view(np.uint8)[..., -nbytes:])
    return blocks


def bfloat16_values(numbers: npt.ArrayLike) -> npt.NDArray[np.float32]:
    """Float32 numbers that bfloat16 holds exactly, cut off from ``numbers``."""
    return (np.ascontiguousarray(numbers, np.float32).view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)


def set_factors(blocks: npt.NDArray[np.uint8], place: int, factors: npt.ArrayLike) -> None:
    """Write float16 factors at byte ``place`` of every block."""
    blocks[..., place : place + 2] = np.asarray(factors, np.float16)[..., None].view(np.uint8)


def random_weight(encoding: str, rows: int, columns: int, seed: int = 0) -> Weight:
    """A matrix of random blocks."""
    return weight_of(encoding, random_blocks(encoding, (rows,), columns, seed))
