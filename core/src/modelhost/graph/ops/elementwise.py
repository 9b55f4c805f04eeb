"""Element-wise arithmetic and activations."""

from __future__ import annotations

from typing import Literal

from ..operation import operation, require
from ..tensor import FLOATS, DType, Tensor

Activation = Literal["silu", "gelu", "gelu_tanh", "relu", "sigmoid", "softplus"]
ACTIVATIONS: frozenset[str] = frozenset({"silu", "gelu", "gelu_tanh", "relu", "sigmoid", "softplus"})


def _same(x: Tensor, y: Tensor) -> None:
    require(x.dtype == y.dtype and x.dtype in FLOATS, "both operands must have the same float dtype")
    require(x.shape == y.shape, "both operands must have the same shape")


@operation()
def add(x: Tensor, y: Tensor) -> Tensor:
    """``x + y``, same shape and dtype."""
    _same(x, y)
    return x.like()


@operation()
def multiply(x: Tensor, y: Tensor) -> Tensor:
    """``x * y``, same shape and dtype."""
    _same(x, y)
    return x.like()


@operation()
def scale(x: Tensor, *, factor: float) -> Tensor:
    """``x * factor``, the factor first rounded to the dtype of ``x``."""
    require(x.dtype in FLOATS, f"x must be float, got {x.dtype}")
    return x.like()


@operation()
def scale_rows(x: Tensor, factors: Tensor) -> Tensor:
    """Every row of ``x`` times its own factor.

    Args:
        x: float ``[..., N]``.
        factors: float ``[..., 1]``.
    """
    require(x.dtype in FLOATS and factors.dtype in FLOATS, "x and factors must be float")
    require(factors.shape == (*x.shape[:-1], 1), "factors must have one value for each row of x")
    return x.like()


@operation()
def activation(x: Tensor, *, kind: Activation) -> Tensor:
    """Applied to every element.

    ``silu``: x*sigmoid(x); ``gelu``: exact, by erf; ``gelu_tanh``: the tanh approximation; ``relu``: max(x, 0);
    ``sigmoid``: 1/(1+exp(-x)); ``softplus``: log(1+exp(x)).
    """
    require(x.dtype in FLOATS, f"x must be float, got {x.dtype}")
    require(kind in ACTIVATIONS, f"kind must be one of {sorted(ACTIVATIONS)}, got {kind!r}")
    return x.like()


@operation()
def gated_activation(gate: Tensor, up: Tensor, *, kind: Activation) -> Tensor:
    """``activation(gate) * up`` (Shazeer, GLU Variants Improve Transformer, 2020)."""
    _same(gate, up)
    require(kind in ACTIVATIONS, f"kind must be one of {sorted(ACTIVATIONS)}, got {kind!r}")
    return gate.like()


@gated_activation.decomposition
def _gated_activation(gate: Tensor, up: Tensor, *, kind: Activation) -> Tensor:
    return multiply(activation(gate, kind=kind), up)


@operation()
def soft_cap(x: Tensor, *, cap: float) -> Tensor:
    """``cap * tanh(x / cap)`` (Gemma 2)."""
    require(x.dtype in FLOATS, f"x must be float, got {x.dtype}")
    require(cap > 0, f"cap must be positive, got {cap}")
    return x.like()


@operation()
def clamp(x: Tensor, *, low: float | None = None, high: float | None = None) -> Tensor:
    """``min(max(x, low), high)``; at most one of the bounds is left out."""
    require(x.dtype in FLOATS, f"x must be float, got {x.dtype}")
    require(low is not None or high is not None, "clamp needs a bound")
    require(low is None or high is None or low <= high, f"low {low} is above high {high}")
    return x.like()


@operation()
def cast(x: Tensor, *, dtype: DType) -> Tensor:
    """``x`` in another float dtype."""
    require(x.dtype in FLOATS and dtype in FLOATS, f"casts are between float dtypes, got {x.dtype} to {dtype}")
    return x.like(dtype=dtype)
