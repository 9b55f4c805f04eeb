"""Several residual streams in place of one: hyper-connections (Zhu et al., 2024), with mixing matrices whose rows and
columns add up to one (manifold-constrained hyper-connections, Xie et al., 2025).
"""

from __future__ import annotations

from ..operation import operation, require
from ..tensor import FLOATS, Tensor


@operation()
def stream_weights(
    projected: Tensor, factors: Tensor, bias: Tensor, *, streams: int, iterations: int, eps: float
) -> tuple[Tensor, ...]:
    """The weights with which a token's N streams enter and leave a layer, in float32.

    Of ``projected``, the first N columns make ``collapse = sigmoid(factors[0] * p + bias) + eps``, the next N
    ``expand = 2 * sigmoid(factors[1] * p + bias)``, and the last N*N, row by row, a matrix: its rows are
    ``softmax(factors[2] * p + bias) + eps``; then every column is divided by its sum plus ``eps``, and after that
    ``iterations - 1`` times every row and then every column (Sinkhorn and Knopp, 1967). When there are N columns only,
    only ``collapse`` is made.

    Args:
        projected: float ``[T, N + N + N*N]``, or ``[T, N]``.
        factors: ``[3]``, or ``[1]``.
        bias: ``[N + N + N*N]``, or ``[N]``.

    Returns:
        float32 ``[T, N, 1]``; and unless there are N columns only, ``[T, 1, N]`` and ``[T, N, N]``. All are what
        :func:`mix_streams` takes.
    """
    require(projected.dtype in FLOATS and len(projected.shape) == 2, "projected must be float [tokens, columns]")
    tokens, columns = projected.shape
    require(streams > 0 and iterations > 0, "streams and iterations must be positive")
    whole = (2 + streams) * streams
    require(columns in (streams, whole), f"projected must have {streams} or {whole} columns, got {columns}")
    count = 1 if columns == streams else 3
    require(factors.shape == (count,), f"factors must have {count} values")
    require(bias.shape == (columns,), f"bias must have {columns} values")
    shapes = [(tokens, streams, 1), (tokens, 1, streams), (tokens, streams, streams)][:count]
    return tuple(Tensor("float32", shape) for shape in shapes)


@operation()
def mix_streams(x: Tensor, weights: Tensor) -> Tensor:
    """``y[t, k] = sum_j weights[t, j, k] * x[t, j]``, a small matrix for each token, in float32 and rounded once.

    Args:
        x: float ``[T, J, D]``.
        weights: float ``[T, J, K]``.

    Returns:
        ``[T, K, D]`` in the dtype of ``x``.
    """
    require(x.dtype in FLOATS and len(x.shape) == 3, "x must be float [tokens, streams, features]")
    require(weights.dtype in FLOATS and len(weights.shape) == 3, "weights must be float [tokens, streams, streams]")
    require(weights.shape[:2] == x.shape[:2], "weights must have one row for each stream of x")
    return x.like(shape=(x.shape[0], weights.shape[2], x.shape[2]))
