"""NumPy kernels of hyper-connections."""

from __future__ import annotations

from functools import reduce

import numpy as np

from modelhost.graph import ops

from .kernels import ACTIVATIONS
from .registry import Float, kernel


@kernel(ops.stream_weights)
def stream_weights(
    projected: Float, factors: Float, bias: Float, *, streams: int, iterations: int, eps: float
) -> tuple[Float, ...]:
    sizes = (streams, streams, streams * streams)[: len(factors)]
    scaled = projected * np.repeat(factors, sizes) + bias
    pieces = np.split(scaled, np.cumsum(sizes)[:-1], axis=-1)
    collapse = ACTIVATIONS["sigmoid"](pieces[0]) + np.float32(eps)
    if len(pieces) == 1:
        return (collapse[:, :, None],)
    expand = 2 * ACTIVATIONS["sigmoid"](pieces[1])
    matrix = pieces[2].reshape(-1, streams, streams)
    return collapse[:, :, None], expand[:, None], _doubly_stochastic(matrix, iterations, np.float32(eps))


def _doubly_stochastic(matrix: Float, iterations: int, eps: np.float32) -> Float:
    matrix = np.exp(matrix - matrix.max(axis=2, keepdims=True))
    matrix = matrix / _total(matrix, 2) + eps
    matrix = matrix / (_total(matrix, 1) + eps)
    for _ in range(iterations - 1):
        matrix = matrix / (_total(matrix, 2) + eps)
        matrix = matrix / (_total(matrix, 1) + eps)
    return matrix


def _total(matrix: Float, axis: int) -> Float:
    """Sums along ``axis``, term by term, so in the same order for any number of tokens."""
    result: Float = reduce(np.add, np.split(matrix, matrix.shape[axis], axis=axis))
    return result


@kernel(ops.mix_streams)
def mix_streams(x: Float, weights: Float) -> Float:
    terms = (weights[:, stream, :, None] * x[:, stream, None] for stream in range(x.shape[1]))
    result: Float = reduce(np.add, terms)
    return result
