"""Ops that move or rename values without arithmetic."""

from __future__ import annotations

from math import prod

from ..operation import operation, require
from ..tensor import Dim, Shape, Symbol, Tensor


def _volume(shape: Shape) -> tuple[int, tuple[Dim, ...]]:
    return prod(d for d in shape if isinstance(d, int)), tuple(d for d in shape if isinstance(d, Symbol))


@operation(view=True)
def reshape(x: Tensor, *, shape: Shape) -> Tensor:
    """The same values in row-major order under another shape. Symbols keep their order."""
    require(all(dim >= 0 for dim in shape if isinstance(dim, int)), "shape must not have negative dimensions")
    require(_volume(x.shape) == _volume(shape), f"shape {shape} holds another number of values")
    return x.like(shape=shape)


@operation()
def split(x: Tensor, *, sizes: tuple[int, ...]) -> tuple[Tensor, ...]:
    """Cut the last dimension into consecutive pieces of ``sizes``."""
    require(bool(sizes) and all(size > 0 for size in sizes), f"sizes must be positive, got {sizes}")
    require(x.shape[-1] == sum(sizes), f"sizes {sizes} add up to {sum(sizes)}, x has {x.shape[-1]}")
    return tuple(x.like(shape=(*x.shape[:-1], size)) for size in sizes)


@operation()
def concatenate(x: Tensor, y: Tensor) -> Tensor:
    """``x`` and ``y`` one after the other along the last dimension; all other dimensions are equal."""
    require(x.dtype == y.dtype, "both operands must have the same dtype")
    require(len(x.shape) == len(y.shape) and x.shape[:-1] == y.shape[:-1], "all dimensions but the last must be equal")
    left, right = x.shape[-1], y.shape[-1]
    require(isinstance(left, int) and isinstance(right, int), "the last dimensions must be known")
    return x.like(shape=(*x.shape[:-1], sum(size for size in (left, right) if isinstance(size, int))))


@operation()
def take_rows(x: Tensor, rows: Tensor) -> Tensor:
    """``x[rows]``.

    Args:
        x: ``[T, ...]``.
        rows: int32 ``[S]``, each in ``[0, T)``.
    """
    require(rows.dtype == "int32" and len(rows.shape) == 1, "rows must be int32 of one dimension")
    return x.like(shape=(*rows.shape, *x.shape[1:]))
