"""Pooling of tokens into entries, and attention over both in one softmax."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from .attention import PagedCache, fold, unfold
from .attention_plan import Part

Tensor = torch.Tensor
Int = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Pooling:
    """What layers must have in common to pool the same tokens.

    Attributes:
        block_size: tokens in a block.
        window: tokens that make an entry.
        stride: tokens from one entry to the next.
    """

    block_size: int
    window: int
    stride: int


@dataclass(frozen=True, slots=True)
class Pooled:
    """The entries that are complete with tokens of a step.

    Attributes:
        rows: of these tokens, ``[n]``.
        slots: of all tokens that make them, ``[n, window]``, oldest first.
        present: bool ``[n, window]``, false for what would be before the first token of the sequence.
    """

    rows: Tensor
    slots: Tensor
    present: Tensor


def plan_pooling(table: Int, starts: Int, contexts: Int, pooling: Pooling, device: torch.device) -> Pooled:
    """Find the tokens that complete an entry.

    Args:
        table: block table ``[B, blocks]``.
        starts: ``[B+1]``, the first query row of each sequence, and the number of rows.
        contexts: ``[B]``, tokens of each sequence up to and with this step's.
    """
    sequences = np.repeat(np.arange(len(contexts)), np.diff(starts))
    rows = np.arange(len(sequences))
    positions = rows - starts[1:][sequences] + contexts[sequences]
    rows = np.flatnonzero((positions + 1) % pooling.stride == 0)
    places = positions[rows, None] + np.arange(1 - pooling.window, 1)
    present = places >= 0
    places = np.maximum(places, 0)
    blocks = table[sequences[rows, None], places // pooling.block_size].astype(np.int64)
    slots = blocks * pooling.block_size + places % pooling.block_size
    return Pooled(*(torch.from_numpy(array).to(device) for array in (rows, slots, present)))


def pool_windows(positions: Tensor, position_bias: Tensor, cache: PagedCache, pooled: Pooled, *, stride: int) -> Tensor:
    """Float32 ``[T, D]``, zeros where no entry is complete."""
    window = pooled.slots.shape[1]
    parts = window // stride
    size = cache.keys.shape[-1] // parts
    result = torch.zeros(len(positions), size, dtype=torch.float32, device=cache.keys.device)
    if len(pooled.rows) == 0:
        return result
    bias = position_bias.float().view(stride, parts, size)
    values = _own_parts(cache.keys[pooled.slots, 0].float().view(-1, parts, stride, parts, size))
    gates = _own_parts(cache.values[pooled.slots, 0].float().view(-1, parts, stride, parts, size) + bias)
    gates = gates.masked_fill_(~pooled.present[..., None], float("-inf"))
    return result.index_copy_(0, pooled.rows, (values * gates.softmax(1)).sum(1))


def _own_parts(tokens: Tensor) -> Tensor:
    """``[n, window, D]``: of the tokens of the i-th stretch of ``[n, parts, stride, parts, D]`` their i-th part."""
    return tokens.diagonal(dim1=1, dim2=3).permute(0, 3, 1, 2).flatten(1, 2)


def compressed_attention(
    query: Tensor,
    cache: PagedCache,
    compressed: PagedCache,
    sinks: Tensor | None,
    selected: Tensor | None,
    parts: list[Part],
    compressed_parts: list[Part],
    *,
    scale: float,
) -> Tensor:
    """``[T, heads, value_dim]``: attention over each cache by itself, brought together by the weights that each has."""
    recent = _Partial.of(query, cache, None, parts, scale)
    pooled = _Partial.of(query, compressed, selected, compressed_parts, scale)
    largest = torch.maximum(recent.largest, pooled.largest)
    if sinks is not None:
        largest = torch.maximum(largest, sinks.float()[:, None])
    left, right = (recent.largest - largest).exp_(), (pooled.largest - largest).exp_()
    total = recent.total * left + pooled.total * right
    if sinks is not None:
        total = total + (sinks.float()[:, None] - largest).exp_()
    return ((recent.sums * left + pooled.sums * right) / total).to(query.dtype)


@dataclass(frozen=True, slots=True)
class _Partial:
    """Attention before the division by the sum of weights, float32.

    Attributes:
        sums: weighted sums of values, ``[T, heads, value_dim]``.
        total: sums of weights, ``[T, heads, 1]``; zero where nothing is seen.
        largest: scores that the weights ``exp(score - largest)`` refer to, ``[T, heads, 1]``.
    """

    sums: Tensor
    total: Tensor
    largest: Tensor

    @classmethod
    def of(cls, query: Tensor, cache: PagedCache, selected: Tensor | None, parts: list[Part], scale: float) -> _Partial:
        value_dim = cache.values.shape[-1]
        result = torch.empty(*query.shape[:2], value_dim + 2, dtype=torch.float32, device=query.device)
        for part in parts:
            chosen = None if selected is None else selected[part.rows]
            result[part.rows] = _attend(query[part.rows], cache, chosen, part, scale)
        return cls(*torch.split_with_sizes(result, (value_dim, 1, 1), -1))


def _attend(query: Tensor, cache: PagedCache, selected: Tensor | None, part: Part, scale: float) -> Tensor:
    """``[rows, heads, value_dim + 2]``: weighted sums, the sum of weights, the largest score."""
    keys, values = cache.gather(part)
    group = query.shape[1] // keys.shape[1]
    mask = part.mask()
    if selected is not None:
        chosen = part.selection(selected, keys.shape[2], group)
        mask = chosen if mask is None else mask & chosen
    scores = (fold(query, part, keys.shape[1]).float() @ keys.float().transpose(-1, -2)).mul_(scale)
    if mask is not None:
        scores = scores.masked_fill_(~mask, float("-inf"))
    largest = scores.amax(-1, keepdim=True).clamp_(min=torch.finfo(torch.float32).min)
    weights = scores.sub_(largest).exp_()
    sums = weights @ values.float()
    return unfold(torch.cat((sums, weights.sum(-1, keepdim=True), largest), -1), group)
