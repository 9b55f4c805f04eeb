"""Feed-forward layers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from modelhost.graph import ops
from modelhost.graph.ops.elementwise import Activation
from modelhost.graph.tensor import Tensor

from ..module import Module
from .linear import Linear

if TYPE_CHECKING:
    from ..config import DecoderConfig


class GatedMLP(Module):
    """``down(activation(gate(x)) * up(x))``.

    Args:
        limit: gates are cut to at most this, ups to ``[-limit, limit]``; no limit by default.
    """

    def __init__(
        self,
        hidden_size: int,
        intermediate_size: int,
        *,
        activation: Activation,
        bias: bool = False,
        limit: float | None = None,
    ) -> None:
        self.gate_proj = Linear(hidden_size, intermediate_size, bias=bias, sharding="column")
        self.up_proj = Linear(hidden_size, intermediate_size, bias=bias, sharding="column")
        self.down_proj = Linear(intermediate_size, hidden_size, bias=bias, sharding="row")
        self._activation: Activation = activation
        self._limit = limit

    @classmethod
    def of(cls, config: DecoderConfig) -> Self:
        """With the sizes, activation and ``mlp_bias`` of ``config``."""
        return cls(config.hidden_size, config.intermediate_size, activation=config.hidden_act, bias=config.mlp_bias)

    def __call__(self, x: Tensor) -> Tensor:
        gate, up = self.gate_proj(x), self.up_proj(x)
        if self._limit is not None:
            gate, up = ops.clamp(gate, high=self._limit), ops.clamp(up, low=-self._limit, high=self._limit)
        return self.down_proj(ops.gated_activation(gate, up, kind=self._activation))
