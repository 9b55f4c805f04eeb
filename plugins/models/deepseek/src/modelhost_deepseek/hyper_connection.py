"""Hyper-connections: several residual streams, which every layer collapses into its input and which its output joins.

Source: transformers ``models/deepseek_v4/modeling_deepseek_v4.py``; Xie et al., mHC, 2025.
"""

from __future__ import annotations

from collections.abc import Callable

from modelhost.api.model import Module, Parameter, Tensor
from modelhost.graph import ops

from .deepseek_v4_config import DeepseekV4Config


class _StreamWeights(Module):
    """The weights of streams, a projection of all of them, in float32."""

    def __init__(self, config: DeepseekV4Config) -> None:
        self._streams, self._hidden_size = config.hc_mult, config.hidden_size
        self._iterations, self._eps, self._norm_eps = config.hc_sinkhorn_iters, config.hc_eps, config.rms_norm_eps

    def _weights(self, streams: Tensor, projection: Tensor, factors: Tensor, bias: Tensor) -> tuple[Tensor, ...]:
        flat = ops.reshape(streams, shape=(streams.shape[0], self._streams * self._hidden_size))
        flat = flat if flat.dtype == "float32" else ops.cast(flat, dtype="float32")
        projected = ops.linear(ops.rms_norm(flat, None, eps=self._norm_eps), projection)
        return ops.stream_weights(
            projected, factors, bias, streams=self._streams, iterations=self._iterations, eps=self._eps
        )

    def _collapsed(self, streams: Tensor, weights: Tensor) -> Tensor:
        return ops.reshape(ops.mix_streams(streams, weights), shape=(streams.shape[0], self._hidden_size))


class HyperConnection(_StreamWeights):
    """Collapses the streams into the input of a layer, and says how the layer's output joins them."""

    def __init__(self, config: DeepseekV4Config) -> None:
        super().__init__(config)
        count = (2 + config.hc_mult) * config.hc_mult
        self.fn = Parameter((count, config.hc_mult * config.hidden_size))
        self.base = Parameter((count,))
        self.scale = Parameter((3,))

    def __call__(self, streams: Tensor) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
        """The input ``[T, hidden_size]`` of a layer, and what makes the next streams of the layer's output."""
        collapse, expand, mix = self._weights(streams, self.fn, self.scale, self.base)

        def join(output: Tensor) -> Tensor:
            single = ops.reshape(output, shape=(output.shape[0], 1, self._hidden_size))
            return ops.mix_streams(single, expand) + ops.mix_streams(streams, mix)

        return self._collapsed(streams, collapse), join


class StreamCollapse(_StreamWeights):
    """Collapses the streams at the end."""

    def __init__(self, config: DeepseekV4Config) -> None:
        super().__init__(config)
        self.hc_fn = Parameter((config.hc_mult, config.hc_mult * config.hidden_size))
        self.hc_base = Parameter((config.hc_mult,))
        self.hc_scale = Parameter((1,))

    def __call__(self, streams: Tensor) -> Tensor:
        [collapse] = self._weights(streams, self.hc_fn, self.hc_scale, self.hc_base)
        return self._collapsed(streams, collapse)
