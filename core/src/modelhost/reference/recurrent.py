"""NumPy kernels of recurrent layers, one sequence after another and one token after another."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from modelhost.graph import ops

from .kernels import ACTIVATIONS
from .registry import Float, Int, kernel


def _sequences(
    state: Float, read_slots: Int, write_slots: Int, sequence_starts: Int, context_lengths: Int
) -> Iterator[tuple[slice, Float, int]]:
    """For every sequence its rows, a copy of its state before them, and the slot that its new state goes to."""
    for sequence, context in enumerate(context_lengths.tolist()):
        start, end = sequence_starts[sequence : sequence + 2].tolist()
        before = np.zeros(state.shape[1:], np.float32) if context == end - start else state[read_slots[sequence]].copy()
        yield slice(start, end), before, int(write_slots[sequence])


@kernel(ops.causal_convolution)
def causal_convolution(
    x: Float,
    weight: Float,
    bias: Float | None,
    state: Float,
    read_slots: Int,
    write_slots: Int,
    sequence_starts: Int,
    context_lengths: Int,
    *,
    activation: str | None,
) -> Float:
    width = weight.shape[1]
    result = np.zeros(x.shape, np.float32)
    for rows, before, slot in _sequences(state, read_slots, write_slots, sequence_starts, context_lengths):
        inputs = np.concatenate([before, x[rows]])
        for tap in range(width):
            result[rows] += weight[:, tap] * inputs[tap : len(inputs) - width + 1 + tap]
        state[slot] = inputs[len(inputs) - width + 1 :]
    if bias is not None:
        result += bias
    return result if activation is None else ACTIVATIONS[activation](result)


@kernel(ops.decay_gate)
def decay_gate(x: Float, log_rate: Float, bias: Float) -> Float:
    rate = np.exp(log_rate).reshape(-1, *(1,) * (x.ndim - 2))
    result: Float = -rate * ACTIVATIONS["softplus"](x + bias.reshape(x.shape[1:]))
    return result


@kernel(ops.gated_delta_rule)
def gated_delta_rule(
    query: Float,
    key: Float,
    value: Float,
    decay: Float,
    beta: Float,
    state: Float,
    read_slots: Int,
    write_slots: Int,
    sequence_starts: Int,
    context_lengths: Int,
    *,
    scale: float,
    normalize: bool,
    key_heads: str,
) -> Float:
    if normalize:
        query, key = _unit(query), _unit(key)
    heads = _key_head_of_value_heads(key.shape[1], value.shape[1], key_heads)
    kept = np.exp(decay).reshape(*decay.shape[:2], *decay.shape[2:] or (1,), 1)
    result = np.empty(value.shape, np.float32)
    for rows, current, slot in _sequences(state, read_slots, write_slots, sequence_starts, context_lengths):
        for row in range(rows.start, rows.stop):
            k, q = key[row, heads][:, :, None], query[row, heads][:, None]
            current *= kept[row]
            known = np.matmul(k.transpose(0, 2, 1), current)
            current += k * (beta[row, :, None, None] * (value[row, :, None] - known))
            result[row] = np.matmul(q, current)[:, 0] * np.float32(scale)
        state[slot] = current
    return result


def _unit(x: Float) -> Float:
    x = np.ascontiguousarray(x)
    result: Float = x / np.sqrt(np.sum(x * x, axis=-1, keepdims=True) + np.float32(1e-6))
    return result


def _key_head_of_value_heads(key_heads: int, value_heads: int, order: str) -> np.ndarray[tuple[int], np.dtype[np.intp]]:
    heads = np.arange(value_heads)
    return heads % key_heads if order == "tiled" else heads // (value_heads // key_heads)
