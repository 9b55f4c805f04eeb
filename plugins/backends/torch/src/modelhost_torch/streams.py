"""Hyper-connections."""

from __future__ import annotations

import torch

Tensor = torch.Tensor


def stream_weights(
    projected: Tensor, factors: Tensor, bias: Tensor, *, streams: int, iterations: int, eps: float
) -> tuple[Tensor, ...]:
    """Float32 ``[T, N, 1]``, and unless there are N columns only, ``[T, 1, N]`` and ``[T, N, N]``."""
    sizes = [streams, streams, streams * streams][: len(factors)]
    columns = torch.split_with_sizes(projected.float(), sizes, -1)
    shifts = torch.split_with_sizes(bias, sizes)
    pieces = [x * factor + shift for x, factor, shift in zip(columns, factors, shifts, strict=True)]
    collapse = pieces[0].sigmoid().add_(eps)[:, :, None]
    if len(pieces) == 1:
        return (collapse,)
    matrix = pieces[2].view(-1, streams, streams).softmax(-1).add_(eps)
    matrix = matrix / (matrix.sum(1, keepdim=True) + eps)
    for _ in range(iterations - 1):
        matrix = matrix / (matrix.sum(2, keepdim=True) + eps)
        matrix = matrix / (matrix.sum(1, keepdim=True) + eps)
    return collapse, 2 * pieces[1].sigmoid()[:, None], matrix


def mix_streams(x: Tensor, weights: Tensor) -> Tensor:
    """``[T, K, D]`` in the dtype of ``x``."""
    return (weights.float().transpose(1, 2) @ x.float()).to(x.dtype)
