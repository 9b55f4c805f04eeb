"""Dot products of 8-bit integers, exact, with the instructions that the CPU has for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from operator import add

from modelhost_cpu.encodings.planes import byte_mask
from modelhost_cpu.encodings.quantized import Factors
from modelhost_cpu.language.function import Function
from modelhost_cpu.language.types import f32, i1, i8, i16, i32, lanes_of, vector
from modelhost_cpu.language.value import Value
from modelhost_cpu.machine import Target

from .quantize import SCALE, offset_start, scaled_sum

_LARGEST = 127
"""Magnitude of the activations."""
_INT16 = 32767

Dot = Callable[[Function, Sequence[Value], Sequence[Value], Value, int], Value]
"""``(k, weights, activations, start, bits)``: ``start`` plus the products of corresponding bytes, ``lanes x i32``.

Weights are ``lanes x i32`` with four unsigned numbers of ``bits`` bits each, activations signed ones in every lane.
"""


def lanes_of_dot(target: Target) -> int:
    """Rows of a matrix that one instruction multiplies."""
    if target.has("avx512vnni"):
        return 16
    return 8 if target.vector_bits >= 256 else 4


def dot_with_record(
    k: Function, weights: Sequence[Value], record: Value, half: int | None, offset: int, bits: int
) -> Value:
    """The products of unsigned weights, less an offset, with a record of :mod:`.quantize` or half of it.

    Args:
        weights: for every four columns ``lanes x i32``, a number in each byte.
        record: address of the activations.
        half: which half of the record the weights cover; ``None`` for all of it.
        offset: to subtract from each weight.
        bits: of the weights.

    Returns:
        ``lanes x i32``.
    """
    lanes = lanes_of(weights[0].type)
    first = 0 if half is None else half * 4 * len(weights)
    activations = [k.load(i32, record, first + 4 * quad, align=4).splat(lanes) for quad in range(len(weights))]
    if bits == 8 and _wants_signed_bytes(k.target):
        return _signed_dot(k, [weight ^ byte_mask(offset) for weight in weights], activations)
    start = offset_start(k, record, half, offset, lanes) if offset else k.zero(weights[0].type)
    return _dot(k.target)(k, weights, activations, start, bits)


def add_scaled(k: Function, total: Value, product: Value, factors: Factors, record: Value, half: int | None) -> Value:
    """``total`` plus the values of products with a record, or with half of it.

    Args:
        total: ``lanes x f32``.
        product: ``lanes x i32``, as of :func:`dot_with_record`.
        factors: of the weights.
        record: address of the activations.
        half: which half of the record; ``None`` for all of it.
    """
    lanes = lanes_of(total.type)
    scale = factors.scale * k.load(f32, record, SCALE, align=4).splat(lanes)
    total = k.fma(product.to(f32), scale, total)
    if factors.minimum is None:
        return total
    return k.fma(factors.minimum, scaled_sum(k, record, half, lanes), total)


def _has_vnni(target: Target) -> bool:
    return target.has("avx512vnni") or target.has("avxvnni")


def _wants_signed_bytes(target: Target) -> bool:
    """Whether the instructions for unsigned weights take 7 bits at most."""
    return target.has("dotprod") or (target.vector_bits >= 256 and not _has_vnni(target))


def _dot(target: Target) -> Dot:
    if _has_vnni(target):
        return _vnni
    if target.vector_bits >= 256:
        return _avx2
    return _arm if target.has("dotprod") else _portable


def _vnni(k: Function, weights: Sequence[Value], activations: Sequence[Value], start: Value, bits: int) -> Value:
    name = f"llvm.x86.avx512.vpdpbusd.{32 * lanes_of(start.type)}"
    for weight, activation in zip(weights, activations, strict=True):
        start = k.call(name, start.type, start, weight, activation)
    return start


def _avx2(k: Function, weights: Sequence[Value], activations: Sequence[Value], start: Value, bits: int) -> Value:
    """Products of bytes in pairs, added as 16-bit integers as long as they cannot overflow."""
    products = [_multiply_pairs(k, *operands) for operands in zip(weights, activations, strict=True)]
    at_once = _INT16 // (2 * _LARGEST * ((1 << bits) - 1))
    for first in range(0, len(products), at_once):
        start = start + _add_pairs(k, reduce(add, products[first : first + at_once]))
    return start


def _multiply_pairs(k: Function, unsigned: Value, signed: Value) -> Value:
    operands = (operand.bits(vector(i8, 32)) for operand in (unsigned, signed))
    return k.call("llvm.x86.avx2.pmadd.ub.sw", vector(i16, 16), *operands)


def _add_pairs(k: Function, x: Value) -> Value:
    return k.call("llvm.x86.avx2.pmadd.wd", vector(i32, 8), x, k.constant(vector(i16, 16), 1))


def _signed_dot(k: Function, weights: Sequence[Value], activations: Sequence[Value]) -> Value:
    """With signed weights. AVX2 has one signed operand: the signs of the weights go to the activations."""
    start = k.zero(weights[0].type)
    if k.target.has("dotprod"):
        return _arm(k, weights, activations, start, 8)
    kind = vector(i8, 32)
    for weight, activation in zip(weights, activations, strict=True):
        magnitude = k.call("llvm.abs.v32i8", kind, weight.bits(kind), k.constant(i1, 0))
        signed = k.call("llvm.x86.avx2.psign.b", kind, activation.bits(kind), weight.bits(kind))
        start = start + _add_pairs(k, _multiply_pairs(k, magnitude, signed))
    return start


def _arm(k: Function, weights: Sequence[Value], activations: Sequence[Value], start: Value, bits: int) -> Value:
    kind = vector(i8, 16)
    for weight, activation in zip(weights, activations, strict=True):
        operands = (weight.bits(kind), activation.bits(kind))
        start = k.call("llvm.aarch64.neon.sdot.v4i32.v16i8", start.type, start, *operands)
    return start


def _portable(k: Function, weights: Sequence[Value], activations: Sequence[Value], start: Value, bits: int) -> Value:
    """Bytes at even and at odd places as 16-bit integers, whose products are added in pairs."""
    kind = vector(i16, 2 * lanes_of(start.type))
    for weight, activation in zip(weights, activations, strict=True):
        unsigned, signed = weight.bits(kind), activation.bits(kind)
        start = start + _multiply_words(k, unsigned & 0xFF, (signed << 8).shift_right_signed(8))
        start = start + _multiply_words(k, unsigned >> 8, signed.shift_right_signed(8))
    return start


def _multiply_words(k: Function, x: Value, y: Value) -> Value:
    """Products of 16-bit integers, two and two added."""
    lanes = lanes_of(x.type) // 2
    if k.target.is_x86:
        return k.call("llvm.x86.sse2.pmadd.wd", vector(i32, lanes), x, y)
    products = x.to(i32) * y.to(i32)
    return products.shuffle(range(0, 2 * lanes, 2)) + products.shuffle(range(1, 2 * lanes, 2))
