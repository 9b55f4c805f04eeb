"""Normalisation."""

from __future__ import annotations

from ..operation import operation, require
from ..tensor import FLOATS, Tensor
from .elementwise import add


def _check(x: Tensor, weight: Tensor | None) -> None:
    require(x.dtype in FLOATS, f"x must be float, got {x.dtype}")
    require(
        weight is None or weight.shape == x.shape[-1:],
        f"weight must have {x.shape[-1]} values, as the last dimension of x",
    )


@operation()
def rms_norm(x: Tensor, weight: Tensor | None, *, eps: float, weight_offset: float = 0.0) -> Tensor:
    """``x / sqrt(mean(x^2) + eps) * (weight + weight_offset)`` over the last dimension (Zhang and Sennrich, 2019).

    Computed in float32 and rounded once. With ``weight_offset=1`` a zero weight is the identity (Gemma).

    Args:
        x: float ``[..., N]``.
        weight: ``[N]``, or ``None`` for no scaling.
    """
    _check(x, weight)
    return x.like()


@operation()
def add_rms_norm(
    x: Tensor, residual: Tensor, weight: Tensor | None, *, eps: float, weight_offset: float = 0.0
) -> tuple[Tensor, Tensor]:
    """``s = x + residual``; returns ``(s, rms_norm(s, weight))``."""
    require(
        x.dtype == residual.dtype and x.shape == residual.shape, "x and residual must have the same dtype and shape"
    )
    _check(x, weight)
    return x.like(), x.like()


@add_rms_norm.decomposition
def _add_rms_norm(
    x: Tensor, residual: Tensor, weight: Tensor | None, *, eps: float, weight_offset: float = 0.0
) -> tuple[Tensor, Tensor]:
    total = add(x, residual)
    return total, rms_norm(total, weight, eps=eps, weight_offset=weight_offset)


@operation()
def layer_norm(x: Tensor, weight: Tensor | None, bias: Tensor | None, *, eps: float) -> Tensor:
    """``(x - mean(x)) / sqrt(variance(x) + eps) * weight + bias`` over the last dimension (Ba et al., 2016).

    Computed in float32 and rounded once.

    Args:
        x: float ``[..., N]``.
        weight: ``[N]``, or ``None`` for no scaling.
        bias: ``[N]``, or ``None`` for no shift.
    """
    _check(x, weight)
    require(bias is None or bias.shape == x.shape[-1:], f"bias must have {x.shape[-1]} values")
    return x.like()
