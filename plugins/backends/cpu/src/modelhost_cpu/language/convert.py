"""Conversions between float32 and the 16-bit formats, in integer arithmetic where the CPU has no instruction."""

from __future__ import annotations

from llvmlite import ir

from .function import Function
from .types import bf16, f16, f32, i16, i32, lanes_of, like, vector
from .value import Value


def widen(k: Function, bits: Value, format_: ir.Type) -> Value:
    """``f32`` of 16-bit numbers.

    Args:
        bits: ``i16``, or a vector of them.
        format_: ``f16`` or ``bf16``.
    """
    if format_ == bf16:
        return (bits.to(i32, unsigned=True) << 16).bits(like(bits.type, f32))
    if k.target.has("f16c") or k.target.has("neon"):
        return bits.bits(like(bits.type, f16)).to(f32)
    return _half_to_float(k, bits.to(i32, unsigned=True))


def _half_to_float(k: Function, bits: Value) -> Value:
    """Exponent and fraction in place; one multiplication then corrects the bias and normalises denormals."""
    float_type = like(bits.type, f32)
    magnitude = ((bits & 0x7FFF) << 13).bits(float_type) * 2.0**112
    special = (bits & 0x7C00).equals(0x7C00)
    infinite = (magnitude.bits(bits.type) | 0x7F800000).bits(float_type)
    value = k.select(special, infinite, magnitude)
    return (value.bits(bits.type) | ((bits & 0x8000) << 16)).bits(float_type)


def narrow(k: Function, x: Value, format_: ir.Type) -> Value:
    """16-bit numbers of ``f32``, rounded to nearest, ties to even.

    Args:
        x: ``f32``, or a vector of them.
        format_: ``bf16`` only; NaN stays NaN.

    Returns:
        ``i16`` bits.
    """
    if format_ != bf16:
        raise ValueError(f"cannot narrow to {format_}")
    lanes = lanes_of(x.type)
    if lanes in (8, 16) and k.target.has("avx512bf16", "avx512vl"):
        name = f"llvm.x86.avx512bf16.cvtneps2bf16.{lanes * 32}"
        return k.call(name, vector(bf16, lanes), x).bits(vector(i16, lanes))
    bits = x.bits(like(x.type, i32))
    rounded = bits + ((bits >> 16) & 1) + 0x7FFF
    quiet = bits | 0x400000
    return (k.select(x.equals(x), rounded, quiet) >> 16).to(i16)
