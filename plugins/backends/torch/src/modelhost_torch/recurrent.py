"""Kernels of recurrent layers: short causal convolutions and the gated delta rule.

All sequences of a step advance together, one token of each at a time, so that decoding is one batch.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F

from modelhost.graph import ops

from .walk import Walk

Tensor = torch.Tensor

RECURRENT = frozenset({ops.causal_convolution, ops.gated_delta_rule})
INDICES = ("read_slots", "write_slots", "sequence_starts", "context_lengths")
"""Operands that become one, a :class:`~modelhost_torch.walk.Walk`, which the kernel takes last."""


def causal_convolution(
    x: Tensor, weight: Tensor, bias: Tensor | None, state: Tensor, walk: Walk, *, activation: str | None
) -> Tensor:
    """``[T, channels]`` for ``x`` ``[T, channels]``; computed in float32 and rounded once."""
    taps = walk.taps(weight.shape[1])
    before = walk.states(state)
    inputs = torch.cat((before.flatten(0, 1), x.float()))
    factors = weight.float()
    total = inputs[taps.rows[0]] * factors[:, 0]
    for tap, rows in enumerate(taps.rows[1:], 1):
        total.addcmul_(inputs[rows], factors[:, tap])
    if bias is not None:
        total += bias
    state.index_copy_(0, walk.write, inputs[taps.last].view(before.shape))
    return (F.silu(total) if activation == "silu" else total).to(x.dtype)


def decay_gate(x: Tensor, log_rate: Tensor, bias: Tensor) -> Tensor:
    """``-exp(log_rate) * softplus(x + bias)``, float32."""
    rate = log_rate.float().exp().view(-1, *(1,) * (x.dim() - 2))
    return -rate * F.softplus(x.float() + bias.view(x.shape[1:]))


def gated_delta_rule(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    decay: Tensor,
    beta: Tensor,
    state: Tensor,
    walk: Walk,
    *,
    scale: float,
    normalize: bool,
    key_heads: str,
) -> Tensor:
    """``[T, value_heads, value_dim]``; computed in float32 and rounded once."""
    tokens, heads, size = value.shape
    q = walk.ordered(_for_value_heads(query, heads, normalize, key_heads)).unsqueeze(-2)
    k = walk.ordered(_for_value_heads(key, heads, normalize, key_heads)).unsqueeze(-1)
    v = walk.ordered(value.float()).unsqueeze(-2)
    kept = walk.ordered(decay).exp().view(*decay.shape[:2], *decay.shape[2:] or (1,), 1)
    rates = walk.ordered(beta.float()).view(tokens, heads, 1, 1)
    states = walk.states(state)
    result = v.new_empty(tokens, heads, 1, size)
    for now in walk.times():
        current = states[: now.stop - now.start]
        current.mul_(kept[now])
        change = rates[now] * (v[now] - k[now].transpose(-1, -2) @ current)
        current.addcmul_(k[now], change)
        torch.matmul(q[now], current, out=result[now])
    state.index_copy_(0, walk.write, states)
    return walk.restored(result.squeeze(-2) * scale).to(value.dtype)


def _for_value_heads(x: Tensor, heads: int, normalize: bool, order: str) -> Tensor:
    """Queries or keys in float32, one for each value head."""
    x = x.float()
    if normalize:
        x = x / (x.square().sum(-1, keepdim=True) + 1e-6).sqrt()
    repeats = heads // x.shape[1]
    if repeats == 1:
        return x
    return x.repeat(1, repeats, 1) if order == "tiled" else x.repeat_interleave(repeats, 1)
