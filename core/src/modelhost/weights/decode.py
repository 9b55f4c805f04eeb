"""Decoders of the core's encodings: ``(uint8[..., bytes]) -> float32[..., values]``, any leading shape.

Plain numbers are NumPy views; block formats go through ``gguf.quants.dequantize``. The result of ``f32`` may be a
read-only view of its argument; the others return new arrays.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    Blocks = npt.NDArray[np.uint8]
    Values = npt.NDArray[np.float32]


_SLAB_VALUES = 1 << 20
"""Values decoded at a time, so that temporary arrays stay small beside the result."""


@dataclass(frozen=True, slots=True)
class Numbers:
    """Decodes numbers of a NumPy dtype, stored in little-endian order."""

    dtype: str

    def __call__(self, blocks: Blocks) -> Values:
        with np.errstate(over="ignore", invalid="ignore"):
            return _numbers(blocks, self.dtype).astype(np.float32)


@dataclass(frozen=True, slots=True)
class GGMLBlocks:
    """Decodes a block format of ``ggml`` by its name in ``gguf.GGMLQuantizationType``."""

    name: str

    def __call__(self, blocks: Blocks) -> Values:
        from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType
        from gguf.quants import dequantize

        kind = GGMLQuantizationType[self.name]
        block_values, block_bytes = GGML_QUANT_SIZES[kind]
        row_bytes = blocks.shape[-1]
        row_values = row_bytes // block_bytes * block_values
        values = np.empty((*blocks.shape[:-1], row_values), np.float32)
        if not values.size:
            return values
        rows, out = np.ascontiguousarray(blocks).reshape(-1, row_bytes), values.reshape(-1, row_values)
        step = max(1, _SLAB_VALUES // row_values)
        with np.errstate(over="ignore", invalid="ignore"):
            for start in range(0, len(rows), step):
                out[start : start + step] = dequantize(rows[start : start + step], kind)
        return values


def _numbers(blocks: Blocks, dtype: str) -> npt.NDArray[Any]:
    return np.ascontiguousarray(blocks).view(np.dtype(dtype).newbyteorder("<"))


def f32(blocks: Blocks) -> Values:
    """IEEE single precision; a view of ``blocks`` when they are contiguous and aligned."""
    return np.require(_numbers(blocks, "f4"), np.float32, ["A"])


def bf16(blocks: Blocks) -> Values:
    """The upper half of a single precision number."""
    bits = _numbers(blocks, "u2").astype(np.uint32)
    bits <<= 16
    return bits.view(np.float32)


def f8_e4m3(blocks: Blocks) -> Values:
    """``float8_e4m3fn`` of "FP8 Formats for Deep Learning" (arXiv 2209.05433): no infinities, NaN is ``S.1111.111``."""
    return _e4m3_values()[blocks]


def f8_e5m2(blocks: Blocks) -> Values:
    """``float8_e5m2`` of arXiv 2209.05433: the upper byte of a half precision number."""
    return (blocks.astype(np.uint16) << 8).view(np.float16).astype(np.float32)


def f8_e8m0(blocks: Blocks) -> Values:
    """The power-of-two scale of the OCP Microscaling formats: ``2 ** (code - 127)``, 255 is NaN."""
    is_nan = blocks == 255
    values = np.ldexp(np.float32(1), np.where(is_nan, 0, blocks.astype(np.int32) - 127))
    return np.where(is_nan, np.float32(np.nan), values)


@cache
def _e4m3_values() -> Values:
    code = np.arange(256)
    exponent, mantissa = code >> 3 & 15, code & 7
    magnitude = np.where(exponent == 0, np.ldexp(mantissa, -9), np.ldexp(mantissa + 8, exponent - 10))
    values = np.where(code & 0x80, -magnitude, magnitude)
    return np.where(code & 0x7F == 0x7F, np.nan, values).astype(np.float32)


f16 = Numbers("f2")
f64 = Numbers("f8")
bool = Numbers("?")
i8 = Numbers("i1")
i16 = Numbers("i2")
i32 = Numbers("i4")
i64 = Numbers("i8")
u8 = Numbers("u1")
u16 = Numbers("u2")
u32 = Numbers("u4")
u64 = Numbers("u8")

q4_0 = GGMLBlocks("Q4_0")
q4_1 = GGMLBlocks("Q4_1")
q5_0 = GGMLBlocks("Q5_0")
q5_1 = GGMLBlocks("Q5_1")
q8_0 = GGMLBlocks("Q8_0")
q2_k = GGMLBlocks("Q2_K")
q3_k = GGMLBlocks("Q3_K")
q4_k = GGMLBlocks("Q4_K")
q5_k = GGMLBlocks("Q5_K")
q6_k = GGMLBlocks("Q6_K")
iq2_xxs = GGMLBlocks("IQ2_XXS")
iq2_xs = GGMLBlocks("IQ2_XS")
iq3_xxs = GGMLBlocks("IQ3_XXS")
iq1_s = GGMLBlocks("IQ1_S")
iq4_nl = GGMLBlocks("IQ4_NL")
iq3_s = GGMLBlocks("IQ3_S")
iq2_s = GGMLBlocks("IQ2_S")
iq4_xs = GGMLBlocks("IQ4_XS")
iq1_m = GGMLBlocks("IQ1_M")
tq1_0 = GGMLBlocks("TQ1_0")
tq2_0 = GGMLBlocks("TQ2_0")
mxfp4 = GGMLBlocks("MXFP4")
nvfp4 = GGMLBlocks("NVFP4")
