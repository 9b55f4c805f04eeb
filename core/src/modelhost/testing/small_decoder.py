"""A small decoder with everything that families differ in, for checks on whole graphs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from modelhost.api.backend import Graph, KernelBackend, Parameter, Tensor
from modelhost.api.blocks import Attention, DeltaRule, Embedding, GatedMLP, Linear, RMSNorm, ShortConvolution
from modelhost.api.model import CausalLM, trace
from modelhost.api.module import Module
from modelhost.api.rope import RopeParameters, RotaryEmbedding
from modelhost.api.step import Step
from modelhost.graph import ops
from modelhost.graph.ops.elementwise import Activation
from modelhost.graph.passes import optimize


@dataclass(frozen=True, slots=True)
class Variant:
    """What the decoder is made of.

    Attributes:
        windows: the window of each layer.
        recurrent: layers with linear attention instead.
    """

    name: str
    windows: tuple[int | None, ...] = (None, None)
    heads: int = 6
    kv_heads: int = 2
    head_dim: int = 6
    activation: Activation = "silu"
    tied: bool = False
    bias: bool = False
    qk_norm: bool = False
    soft_cap: float | None = None
    weight_offset: float = 0.0
    rotated: float = 1.0
    interleaved: bool = False
    recurrent: tuple[int, ...] = ()

    vocabulary = 65
    hidden = 33
    intermediate = 51


VARIANTS = (
    Variant("plain"),
    Variant("tied and windowed", windows=(4, None), tied=True, qk_norm=True),
    Variant("capped", soft_cap=2.0, windows=(5, None), weight_offset=1.0, activation="gelu_tanh", heads=4, kv_heads=4),
    Variant("biased", bias=True, rotated=0.67, interleaved=True, kv_heads=1, activation="gelu"),
    Variant("recurrent", windows=(None, None, 4), recurrent=(0, 1)),
)


def decoder_graph(variant: Variant, backend: KernelBackend, encoding_of: Callable[[Parameter], str]) -> Graph:
    """The decoder traced in the dtype of ``backend`` and optimised for it."""
    graph = trace(SmallDecoder(variant), backend.dtype)
    return optimize(graph, native=backend.native, encoding_of=encoding_of, backend=backend.name)


class _Layer(Module):
    def __init__(self, v: Variant, attention: Attention | _LinearAttention) -> None:
        self.input_norm = RMSNorm(v.hidden, eps=1e-6, weight_offset=v.weight_offset)
        self.attention = attention
        self.post_norm = RMSNorm(v.hidden, eps=1e-6, weight_offset=v.weight_offset)
        self.mlp = GatedMLP(v.hidden, v.intermediate, activation=v.activation, bias=v.bias)

    def __call__(self, x: Tensor, step: Step) -> Tensor:
        x = x + self.attention(self.input_norm(x), step)
        return x + self.mlp(self.post_norm(x))


def _attention(v: Variant, rotary: RotaryEmbedding, window: int | None) -> Attention:
    return Attention(
        hidden_size=v.hidden,
        heads=v.heads,
        kv_heads=v.kv_heads,
        head_dim=v.head_dim,
        rotary=rotary,
        window=window,
        soft_cap=v.soft_cap,
        qkv_bias=v.bias,
        output_bias=v.bias,
        q_norm=RMSNorm(v.head_dim, eps=1e-6) if v.qk_norm else None,
        k_norm=RMSNorm(v.head_dim, eps=1e-6) if v.qk_norm else None,
    )


class _LinearAttention(Module):
    """A short convolution and the gated delta rule."""

    def __init__(self, v: Variant) -> None:
        self._heads, self._shared = (v.heads, v.head_dim), (v.kv_heads, v.head_dim)
        self._sizes = (v.kv_heads * v.head_dim, v.kv_heads * v.head_dim, v.heads * v.head_dim)
        self.qkv_proj = Linear(v.hidden, sum(self._sizes))
        self.gate_proj = Linear(v.hidden, v.heads)
        self.convolution = ShortConvolution(sum(self._sizes), 4)
        self.log_rate, self.rate_bias = Parameter((v.heads,)), Parameter((v.heads,))
        self.rule = DeltaRule(v.heads, v.head_dim, v.head_dim)
        self.o_proj = Linear(v.heads * v.head_dim, v.hidden)

    def __call__(self, x: Tensor, step: Step) -> Tensor:
        query, key, value = ops.split(self.convolution(self.qkv_proj(x), step), sizes=self._sizes)
        gates = self.gate_proj(x)
        mixed = self.rule(
            ops.reshape(query, shape=step.shape(*self._shared)),
            ops.reshape(key, shape=step.shape(*self._shared)),
            ops.reshape(value, shape=step.shape(*self._heads)),
            ops.decay_gate(gates, self.log_rate, self.rate_bias),
            ops.activation(gates, kind="sigmoid"),
            step,
        )
        return self.o_proj(ops.reshape(mixed, shape=step.shape(self._sizes[2])))


class SmallDecoder(CausalLM):
    """A pre-norm decoder of a few layers."""

    def __init__(self, variant: Variant) -> None:
        parameters = RopeParameters(partial_rotary_factor=variant.rotated)
        rotary = RotaryEmbedding(parameters, variant.head_dim, 64, interleaved=variant.interleaved)
        self.embedding = Embedding(variant.vocabulary, variant.hidden)
        self.layers = [
            _Layer(
                variant,
                _LinearAttention(variant) if layer in variant.recurrent else _attention(variant, rotary, window),
            )
            for layer, window in enumerate(variant.windows)
        ]
        self.norm = RMSNorm(variant.hidden, eps=1e-6, weight_offset=variant.weight_offset)
        self.head = self.embedding if variant.tied else Linear(variant.hidden, variant.vocabulary)
        self._soft_cap = variant.soft_cap

    def forward(self, step: Step) -> Tensor:
        x = self.embedding(step)
        for layer in self.layers:
            x = layer(x, step)
        logits = ops.linear(self.norm(ops.take_rows(x, step.logit_rows)), self.head.weight)
        return logits if self._soft_cap is None else ops.soft_cap(logits, cap=self._soft_cap)
