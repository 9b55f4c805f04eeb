"""The parts of linear attention that keep a state for each sequence."""

from __future__ import annotations

from typing import Literal

from modelhost.graph import ops
from modelhost.graph.cache import RecurrentSpec
from modelhost.graph.tensor import Parameter, State, Tensor

from ..module import Module
from ..step import Step
from ..weight import Weight

KeyHeads = Literal["grouped", "tiled"]


class ShortConvolution(Module):
    """A causal depthwise convolution over the last ``width`` tokens, and SiLU. ``weight`` is ``[channels, width]``."""

    def __init__(self, channels: int, width: int, *, bias: bool = False) -> None:
        self.weight = Parameter((channels, width))
        self.bias = Parameter((channels,)) if bias else None
        self.state = State("", RecurrentSpec((width - 1, channels)))

    def __call__(self, x: Tensor, step: Step) -> Tensor:
        """``[T, channels]`` for ``x`` ``[T, channels]``."""
        indices = _indices(self.state, step)
        return ops.causal_convolution(x, self.weight, self.bias, self.state, *indices, activation="silu")


class DeltaRule(Module):
    """The gated delta rule over normalised queries and keys, results divided by ``sqrt(key_dim)``.

    Args:
        heads: value heads.
        key_dim: size of a head's query and key.
        value_dim: size of a head's value.
        key_heads: which key head a value head reads, as :func:`modelhost.graph.ops.gated_delta_rule` takes it.
    """

    def __init__(self, heads: int, key_dim: int, value_dim: int, *, key_heads: KeyHeads = "grouped") -> None:
        self.state = State("", RecurrentSpec((heads, key_dim, value_dim)))
        self._scale = key_dim**-0.5
        self._key_heads: KeyHeads = key_heads

    def __call__(self, query: Tensor, key: Tensor, value: Tensor, decay: Tensor, beta: Tensor, step: Step) -> Tensor:
        """``[T, heads, value_dim]``; operands as :func:`modelhost.graph.ops.gated_delta_rule` takes them."""
        indices = _indices(self.state, step)
        return ops.gated_delta_rule(
            query, key, value, decay, beta, self.state, *indices, scale=self._scale, key_heads=self._key_heads
        )


def _indices(state: State, step: Step) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    return step.read_slots(state), step.write_slots(state), step.sequence_starts, step.context_lengths


def logarithm_of_rates(weight: Weight) -> Weight:
    """``log(-w)`` in float32, for the ``log_rate`` of decays: GGUF files store ``-exp(log_rate)``."""
    import numpy as np

    return Weight.of_values(weight.name, np.log(-weight.dequantize()))
