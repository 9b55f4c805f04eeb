"""NumPy kernels. Each takes arrays in the order of the op's operands and the op's attributes as keywords.

A row of a result depends only on its own row of the input: reductions run over one row at a time, and products are
taken token by token. So a token's values do not depend on what else is in the step.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from modelhost.graph import ops

from .registry import Array, Float, Int, kernel


@kernel(ops.linear)
def linear(x: Float, weight: Float, bias: Float | None) -> Float:
    rows = x.reshape(-1, x.shape[-1])
    result = np.empty((len(rows), len(weight)), np.float32)
    for row, out in zip(rows, result, strict=True):
        np.dot(weight, row, out=out)
    if bias is not None:
        result += bias
    return result.reshape(*x.shape[:-1], len(weight))


@kernel(ops.embed)
def embed(token_ids: Int, table: Float, *, dtype: str) -> Float:
    return table[token_ids]


@kernel(ops.add)
def add(x: Float, y: Float) -> Float:
    return x + y


@kernel(ops.multiply)
def multiply(x: Float, y: Float) -> Float:
    return x * y


@kernel(ops.scale)
def scale(x: Float, *, factor: float) -> Float:
    return x * np.float32(factor)


@kernel(ops.scale_rows)
def scale_rows(x: Float, factors: Float) -> Float:
    return x * factors


@kernel(ops.cast)
def cast(x: Float, *, dtype: str) -> Float:
    return x


@kernel(ops.clamp)
def clamp(x: Float, *, low: float | None, high: float | None) -> Float:
    result: Float = np.clip(x, None if low is None else np.float32(low), None if high is None else np.float32(high))
    return result


@kernel(ops.soft_cap)
def soft_cap(x: Float, *, cap: float) -> Float:
    result: Float = np.float32(cap) * np.tanh(x / np.float32(cap))
    return result


def _sigmoid(x: Float) -> Float:
    result: Float = np.reciprocal(1 + np.exp(np.minimum(-x, np.float32(88.0))))
    return result


def _erf(x: Float) -> Float:
    from math import erf

    return np.fromiter(map(erf, x.ravel().tolist()), np.float32, x.size).reshape(x.shape)


def _gelu_tanh(x: Float) -> Float:
    inner = np.float32(np.sqrt(2 / np.pi)) * (x + np.float32(0.044715) * x * x * x)
    result: Float = np.float32(0.5) * x * (1 + np.tanh(inner))
    return result


ACTIVATIONS: dict[str, Callable[[Float], Float]] = {
    "silu": lambda x: x * _sigmoid(x),
    "gelu": lambda x: np.float32(0.5) * x * (1 + _erf(x / np.float32(np.sqrt(2)))),
    "gelu_tanh": _gelu_tanh,
    "relu": lambda x: np.maximum(x, np.float32(0)),
    "sigmoid": _sigmoid,
    "softplus": lambda x: np.logaddexp(x, np.float32(0)),
}


@kernel(ops.activation)
def activation(x: Float, *, kind: str) -> Float:
    return ACTIVATIONS[kind](x)


@kernel(ops.gated_activation)
def gated_activation(gate: Float, up: Float, *, kind: str) -> Float:
    return ACTIVATIONS[kind](gate) * up


@kernel(ops.rms_norm)
def rms_norm(x: Float, weight: Float | None, *, eps: float, weight_offset: float) -> Float:
    x = np.ascontiguousarray(x)
    variance = np.mean(x * x, axis=-1, keepdims=True)
    normed: Float = x / np.sqrt(variance + np.float32(eps))
    if weight is not None:
        normed = normed * (weight + np.float32(weight_offset))
    return normed


@kernel(ops.add_rms_norm)
def add_rms_norm(
    x: Float, residual: Float, weight: Float | None, *, eps: float, weight_offset: float
) -> tuple[Float, Float]:
    total = x + residual
    return total, rms_norm(total, weight, eps=eps, weight_offset=weight_offset)


@kernel(ops.layer_norm)
def layer_norm(x: Float, weight: Float | None, bias: Float | None, *, eps: float) -> Float:
    x = np.ascontiguousarray(x)
    centred = x - np.mean(x, axis=-1, keepdims=True)
    variance = np.mean(centred * centred, axis=-1, keepdims=True)
    normed: Float = centred / np.sqrt(variance + np.float32(eps))
    normed = normed if weight is None else normed * weight
    return normed if bias is None else normed + bias


def _table(positions: Int, frequencies: Float, scale: float) -> Float:
    angles = positions.astype(np.float32)[:, None] * frequencies
    return np.concatenate([np.cos(angles), np.sin(angles)], axis=-1) * np.float32(scale)


@kernel(ops.rope_table)
def rope_table(positions: Int, *, frequencies: tuple[float, ...], scale: float, offset: int = 0) -> Float:
    return _table(positions + offset, np.asarray(frequencies, np.float32), scale)


@kernel(ops.rope_table_longrope)
def rope_table_longrope(
    positions: Int,
    lengths: Int,
    *,
    short_frequencies: tuple[float, ...],
    long_frequencies: tuple[float, ...],
    original_length: int,
    scale: float,
) -> Float:
    frequencies = np.asarray([short_frequencies, long_frequencies], np.float32)
    return _table(positions, frequencies[(lengths > original_length).astype(np.intp)], scale)


@kernel(ops.rope_table_dynamic)
def rope_table_dynamic(
    positions: Int, lengths: Int, *, base: float, dimensions: int, factor: float, original_length: int
) -> Float:
    length = np.maximum(lengths, original_length).astype(np.float64)
    stretch = (factor * length / original_length - (factor - 1)) ** (dimensions / (dimensions - 2))
    exponents = np.arange(0, dimensions, 2, dtype=np.float64) / dimensions
    frequencies = 1.0 / (base * stretch[:, None]) ** exponents
    return _table(positions, frequencies.astype(np.float32), 1.0)


@kernel(ops.rope)
def rope(x: Float, table: Float, *, interleaved: bool) -> Float:
    half = table.shape[-1] // 2
    cos, sin = table[:, None, :half], table[:, None, half:]
    first = np.s_[..., 0 : 2 * half : 2] if interleaved else np.s_[..., :half]
    second = np.s_[..., 1 : 2 * half : 2] if interleaved else np.s_[..., half : 2 * half]
    result = x.copy()
    result[first] = x[first] * cos - x[second] * sin
    result[second] = x[second] * cos + x[first] * sin
    return result


@kernel(ops.reshape)
def reshape(x: Array, *, shape: tuple[int, ...]) -> Array:
    return x.reshape(shape)


@kernel(ops.split)
def split(x: Array, *, sizes: tuple[int, ...]) -> list[Array]:
    return np.split(x, np.cumsum(sizes)[:-1], axis=-1)


@kernel(ops.concatenate)
def concatenate(x: Array, y: Array) -> Array:
    return np.concatenate([x, y], axis=-1)


@kernel(ops.take_rows)
def take_rows(x: Array, rows: Int) -> Array:
    return x[rows]
