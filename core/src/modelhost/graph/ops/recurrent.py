"""Recurrent layers: short causal convolutions and the gated delta rule.

Sequence b continues from the state in slot ``read_slots[b]`` and leaves its new state in ``write_slots[b]``. A sequence
whose tokens of this step are its first (``context_lengths[b]`` equals their number) starts from zeros instead.
"""

from __future__ import annotations

from math import prod
from typing import Literal

from modelhost.api.errors import GraphError

from ..cache import RecurrentSpec
from ..operation import operation, require
from ..tensor import FLOATS, State, Symbol, Tensor


def _check_slots(
    state: State, read_slots: Tensor, write_slots: Tensor, starts: Tensor, contexts: Tensor
) -> RecurrentSpec:
    spec = state.spec
    if not isinstance(spec, RecurrentSpec):
        raise GraphError("state must be recurrent, not a paged cache")
    sequences = contexts.shape[0]
    require(all(t.dtype == "int32" for t in (read_slots, write_slots, starts, contexts)), "indices must be int32")
    require(read_slots.shape == write_slots.shape == contexts.shape, f"slots must be [{sequences}]")
    after = sequences + 1 if isinstance(sequences, int | Symbol) else None
    require(starts.shape == (after,), f"sequence_starts must be [{after}]")
    return spec


@operation(effect=True)
def causal_convolution(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    state: State,
    read_slots: Tensor,
    write_slots: Tensor,
    sequence_starts: Tensor,
    context_lengths: Tensor,
    *,
    activation: Literal["silu"] | None = None,
) -> Tensor:
    """Depthwise convolution over the last ``width`` tokens of each sequence, zeros before its first.

    ``y[t, c] = activation(bias[c] + sum_j weight[c, j] * x[t - width + 1 + j, c])``. The state holds the last
    ``width - 1`` inputs, oldest first.

    Args:
        x: float ``[T, C]``.
        weight: ``[C, width]``.
        bias: ``[C]``.
        state: recurrent, shape ``(width - 1, C)``.
        read_slots: int32 ``[B]``.
        write_slots: int32 ``[B]``.
        sequence_starts: int32 ``[B+1]``.
        context_lengths: int32 ``[B]``.
    """
    spec = _check_slots(state, read_slots, write_slots, sequence_starts, context_lengths)
    require(x.dtype in FLOATS and len(x.shape) == 2, "x must be float [tokens, channels]")
    require(len(weight.shape) == 2 and weight.shape[0] == x.shape[1], f"weight must be [{x.shape[1]}, width]")
    width, channels = weight.shape[1], x.shape[1]
    require(bias is None or bias.shape == (channels,), f"bias must have {channels} values")
    require(isinstance(width, int) and spec.shape == (width - 1, channels), "state must be (width - 1, channels)")
    return x.like()


@operation()
def decay_gate(x: Tensor, log_rate: Tensor, bias: Tensor) -> Tensor:
    """``-exp(log_rate) * softplus(x + bias)`` in float32: the logarithm of a decay (Mamba 2; Gated DeltaNet, 2024).

    Args:
        x: float ``[T, H]`` or ``[T, H, D]``.
        log_rate: ``[H]``.
        bias: ``[H]``, or ``[H * D]`` when ``x`` has three dimensions.

    Returns:
        float32, the shape of ``x``.
    """
    require(x.dtype in FLOATS and len(x.shape) in (2, 3), "x must be float [T, H] or [T, H, D]")
    require(log_rate.shape == (x.shape[1],), f"log_rate must have {x.shape[1]} values")
    values = prod(dim for dim in x.shape[1:] if isinstance(dim, int))
    require(bias.shape == (values,), f"bias must have {values} values")
    return Tensor("float32", x.shape)


@operation(effect=True)
def gated_delta_rule(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    decay: Tensor,
    beta: Tensor,
    state: State,
    read_slots: Tensor,
    write_slots: Tensor,
    sequence_starts: Tensor,
    context_lengths: Tensor,
    *,
    scale: float,
    normalize: bool = True,
    key_heads: Literal["grouped", "tiled"] = "grouped",
) -> Tensor:
    """The gated delta rule, token by token in float32 (Yang et al., Gated Delta Networks, 2024; Kimi Linear, 2025).

    For every value head h, S being its state ``[key_dim, value_dim]`` and q and k those of its key head::

        S = exp(decay) * S                      a decay for the head, or one for each row of S
        S = S + k (beta * (v - k S))            outer product
        y = scale * q S

    Args:
        query: float ``[T, key_heads, key_dim]``; divided by ``sqrt(sum(q^2) + 1e-6)`` when ``normalize`` is set.
        key: likewise.
        value: float ``[T, value_heads, value_dim]``.
        decay: float32 ``[T, value_heads]`` or ``[T, value_heads, key_dim]``, logarithms.
        beta: float ``[T, value_heads]``.
        state: recurrent, shape ``(value_heads, key_dim, value_dim)``.
        read_slots: int32 ``[B]``.
        write_slots: int32 ``[B]``.
        sequence_starts: int32 ``[B+1]``.
        context_lengths: int32 ``[B]``.
        scale: multiplies the result.
        normalize: divide every query and key by its length.
        key_heads: the key head of value head h is ``h // (value_heads / key_heads)`` when ``"grouped"``, and
            ``h % key_heads`` when ``"tiled"``, as GGUF files have them.

    Returns:
        ``[T, value_heads, value_dim]`` in the dtype of ``value``.
    """
    spec = _check_slots(state, read_slots, write_slots, sequence_starts, context_lengths)
    require(
        all(t.dtype in FLOATS and len(t.shape) == 3 for t in (query, key, value)),
        "query, key, value must be float [T, heads, size]",
    )
    require(query.shape == key.shape, "query and key must have the same shape")
    tokens, shared, key_dim = key.shape
    value_heads, value_dim = value.shape[1:]
    require(value.shape[0] == tokens, "query, key and value must have the same number of tokens")
    require(
        isinstance(value_heads, int) and isinstance(shared, int) and value_heads % shared == 0,
        f"{value_heads} value heads do not divide among {shared} key heads",
    )
    require(spec.shape == (value_heads, key_dim, value_dim), f"state must be ({value_heads}, {key_dim}, {value_dim})")
    require(
        decay.shape in ((tokens, value_heads), (tokens, value_heads, key_dim)),
        "decay must be [T, H] or [T, H, key_dim]",
    )
    require(key_heads in ("grouped", "tiled"), f"key_heads must be 'grouped' or 'tiled', got {key_heads!r}")
    require(decay.dtype == "float32" and beta.shape == (tokens, value_heads), "beta must be [T, H], decay float32")
    return value.like()
