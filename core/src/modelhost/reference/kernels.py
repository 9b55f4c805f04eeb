"""NumPy kernels. Each takes arrays in the order of the op's operands and the op's attributes as keywords.

A row of a result depends only on its own row of the input: reductions run over one row at a time, and products are
taken token by token. So a token's values do not depend on what else is in the step.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from modelhost.graph import ops
from modelhost.graph.operation import Operation

Array = npt.NDArray[Any]
Float = npt.NDArray[np.float32]
Int = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class PagedCache:
    """One layer's cache: ``keys`` float32 ``[slots, kv_heads, key_dim]``, ``values`` likewise with ``value_dim``."""

    keys: Float
    values: Float
    block_size: int
    window: int | None


KERNELS: dict[str, Callable[..., Any]] = {}
"""The kernel of every op, by the op's name."""


def kernel(op: Operation[..., Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorator: the function computes ``op``."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        KERNELS[op.name] = function
        return function

    return register


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


@kernel(ops.cast)
def cast(x: Float, *, dtype: str) -> Float:
    return x


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


def _table(positions: Int, frequencies: Float, scale: float) -> Float:
    angles = positions.astype(np.float32)[:, None] * frequencies
    return np.concatenate([np.cos(angles), np.sin(angles)], axis=-1) * np.float32(scale)


@kernel(ops.rope_table)
def rope_table(positions: Int, *, frequencies: tuple[float, ...], scale: float) -> Float:
    return _table(positions, np.asarray(frequencies, np.float32), scale)


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


@kernel(ops.write_cache)
def write_cache(key: Float, value: Float, cache: PagedCache, slot_mapping: Int) -> tuple[()]:
    cache.keys[slot_mapping] = key
    cache.values[slot_mapping] = value
    return ()


@kernel(ops.attention)
def attention(
    query: Float,
    cache: PagedCache,
    block_table: Int,
    sequence_starts: Int,
    context_lengths: Int,
    *,
    scale: float,
    soft_cap: float | None,
) -> Float:
    tokens, heads, size = query.shape
    kv_heads, value_dim = cache.values.shape[1:]
    grouped = query.reshape(tokens, kv_heads, heads // kv_heads, size)
    result = np.empty((tokens, kv_heads, heads // kv_heads, value_dim), np.float32)
    for sequence, context in enumerate(context_lengths.tolist()):
        start, end = sequence_starts[sequence : sequence + 2].tolist()
        places = np.arange(context)
        slots = block_table[sequence, places // cache.block_size] * cache.block_size + places % cache.block_size
        keys, values = cache.keys[slots], cache.values[slots]
        for row in range(start, end):
            position = context - (end - row)
            low = 0 if cache.window is None else max(0, position - cache.window + 1)
            visible = slice(low, position + 1)
            result[row] = _attend(grouped[row], keys[visible], values[visible], scale, soft_cap)
    return result.reshape(tokens, heads, value_dim)


def _attend(query: Float, keys: Float, values: Float, scale: float, cap: float | None) -> Float:
    """``query`` [kv_heads, group, key_dim], ``keys`` [n, kv_heads, key_dim], ``values`` [n, kv_heads, value_dim]."""
    scores = np.matmul(query, keys.transpose(1, 2, 0)) * np.float32(scale)
    if cap is not None:
        scores = soft_cap(scores, cap=cap)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    result: Float = np.matmul(weights, values.transpose(1, 0, 2))
    return result


@kernel(ops.reshape)
def reshape(x: Array, *, shape: tuple[int, ...]) -> Array:
    return x.reshape(shape)


@kernel(ops.split)
def split(x: Array, *, sizes: tuple[int, ...]) -> list[Array]:
    return np.split(x, np.cumsum(sizes)[:-1], axis=-1)


@kernel(ops.take_rows)
def take_rows(x: Array, rows: Int) -> Array:
    return x[rows]
