"""Projections and table look-ups, the ops that read big weights in any encoding."""

from __future__ import annotations

from ..operation import operation, require
from ..tensor import FLOATS, DType, Tensor


@operation()
def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """``y = x @ weight.T + bias``.

    Args:
        x: float ``[..., K]``.
        weight: ``[N, K]`` in any encoding.
        bias: ``[N]``.

    Returns:
        ``[..., N]`` in the dtype of ``x``.
    """
    require(x.dtype in FLOATS, f"x must be float, got {x.dtype}")
    require(len(weight.shape) == 2, "weight must have two dimensions (out features, in features)")
    require(x.shape[-1] == weight.shape[1], f"x has {x.shape[-1]} features, weight takes {weight.shape[1]}")
    require(bias is None or bias.shape == weight.shape[:1], "bias must have one value for each row of weight")
    return x.like(shape=(*x.shape[:-1], weight.shape[0]))


@operation()
def embed(token_ids: Tensor, table: Tensor, *, dtype: DType = "float32") -> Tensor:
    """Row ``table[token_ids[t]]`` for every token.

    Args:
        token_ids: int32 ``[T]``, each in ``[0, V)``.
        table: ``[V, H]`` in any encoding.
        dtype: of the result.

    Returns:
        ``dtype`` ``[T, H]``.
    """
    require(token_ids.dtype == "int32" and len(token_ids.shape) == 1, "token_ids must be int32 of one dimension")
    require(len(table.shape) == 2, "table must have two dimensions (vocabulary, features)")
    require(dtype in FLOATS, f"dtype must be float, got {dtype}")
    return Tensor(dtype, (token_ids.shape[0], table.shape[1]))
