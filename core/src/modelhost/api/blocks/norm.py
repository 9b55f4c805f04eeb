"""Normalisation layers."""

from __future__ import annotations

from modelhost.graph import ops
from modelhost.graph.tensor import Parameter, Tensor

from ..module import Module


class RMSNorm(Module):
    """Root mean square norm over the last dimension.

    Args:
        size: values in the last dimension.
        eps: added to the mean square.
        weight_offset: added to the weight; 1 where the checkpoint stores the difference to the identity.
    """

    def __init__(self, size: int, *, eps: float, weight_offset: float = 0.0) -> None:
        self.weight = Parameter((size,))
        self._eps = eps
        self._weight_offset = weight_offset

    def __call__(self, x: Tensor) -> Tensor:
        return ops.rms_norm(x, self.weight, eps=self._eps, weight_offset=self._weight_offset)


class LayerNorm(Module):
    """Layer norm over the last dimension, with weight and bias.

    Args:
        size: values in the last dimension.
        eps: added to the variance.
    """

    def __init__(self, size: int, *, eps: float) -> None:
        self.weight = Parameter((size,))
        self.bias = Parameter((size,))
        self._eps = eps

    def __call__(self, x: Tensor) -> Tensor:
        return ops.layer_norm(x, self.weight, self.bias, eps=self._eps)
