"""Qwen3.5, text: three layers of gated delta net to each layer of gated attention.

Positions are three-dimensional (interleaved M-RoPE) for images only: the three components of a text token are equal, so
its rotation is the plain one. References: transformers ``models/qwen3_5/modeling_qwen3_5.py``; for GGUF files llama.cpp
``conversion/qwen.py`` and ``src/models/qwen35.cpp``. Papers: Gated Delta Networks (Yang et al., 2024), Gated Attention
(Qiu et al., 2025).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from modelhost.api.blocks import Attention, DeltaRule, GatedMLP, Linear, RMSNorm, ShortConvolution, logarithm_of_rates
from modelhost.api.model import (
    GGUF_DECODER_NAMES,
    DecoderLM,
    Module,
    Parameter,
    RotaryEmbedding,
    Step,
    Tensor,
    Weight,
)
from modelhost.graph import ops

from .qwen3_5_config import Qwen35Config

GGUF_NAMES: dict[str, str] = GGUF_DECODER_NAMES | {
    "model.layers.{}.post_attention_layernorm": "blk.{}.post_attention_norm",
    "model.layers.{}.linear_attn.in_proj_qkv": "blk.{}.attn_qkv",
    "model.layers.{}.linear_attn.in_proj_z": "blk.{}.attn_gate",
    "model.layers.{}.linear_attn.in_proj_b": "blk.{}.ssm_beta",
    "model.layers.{}.linear_attn.in_proj_a": "blk.{}.ssm_alpha",
    "model.layers.{}.linear_attn.conv1d": "blk.{}.ssm_conv1d",
    "model.layers.{}.linear_attn.A_log": "blk.{}.ssm_a",
    "model.layers.{}.linear_attn.dt_bias": "blk.{}.ssm_dt.bias",
    "model.layers.{}.linear_attn.norm": "blk.{}.ssm_norm",
    "model.layers.{}.linear_attn.out_proj": "blk.{}.ssm_out",
}


class GatedAttention(Attention):
    """Attention whose result is multiplied by the sigmoid of a gate, which each head projects beside its query."""

    def __init__(self, config: Qwen35Config, rotary: RotaryEmbedding) -> None:
        super().__init__(
            hidden_size=config.hidden_size,
            heads=config.num_attention_heads,
            kv_heads=config.num_key_value_heads,
            head_dim=config.head_dim,
            rotary=rotary,
            qkv_bias=config.attention_bias,
            output_bias=config.attention_bias,
            q_norm=norm(config, config.head_dim),
            k_norm=norm(config, config.head_dim),
        )
        size = 2 * config.num_attention_heads * config.head_dim
        self.q_proj = Linear(config.hidden_size, size, bias=config.attention_bias, sharding="column")

    def __call__(self, x: Tensor, step: Step) -> Tensor:
        both = ops.reshape(self.q_proj(x), shape=step.shape(self._heads, 2 * self._head_dim))
        query, gate = ops.split(both, sizes=(self._head_dim, self._head_dim))
        gated = ops.gated_activation(gate, self._attended(query, x, step), kind="sigmoid")
        return self.o_proj(ops.reshape(gated, shape=step.shape(self._heads * self._head_dim)))


class GatedDeltaNet(Module):
    """Linear attention: a short convolution over queries, keys and values together, the delta rule, a gated norm."""

    def __init__(self, config: Qwen35Config) -> None:
        self._key = (config.linear_num_key_heads, config.linear_key_head_dim)
        self._value = (config.linear_num_value_heads, config.linear_value_head_dim)
        self._sizes = (self._key[0] * self._key[1], self._key[0] * self._key[1], self._value[0] * self._value[1])
        self.in_proj_qkv = Linear(config.hidden_size, sum(self._sizes))
        self.in_proj_z = Linear(config.hidden_size, self._sizes[2])
        self.in_proj_b = Linear(config.hidden_size, self._value[0])
        self.in_proj_a = Linear(config.hidden_size, self._value[0])
        self.conv1d = ShortConvolution(sum(self._sizes), config.linear_conv_kernel_dim)
        self.A_log = Parameter((self._value[0],))
        self.dt_bias = Parameter((self._value[0],))
        self.rule = DeltaRule(self._value[0], self._key[1], self._value[1], key_heads=config.key_heads)
        self.norm = RMSNorm(self._value[1], eps=config.rms_norm_eps)
        self.out_proj = Linear(self._sizes[2], config.hidden_size)

    def __call__(self, x: Tensor, step: Step) -> Tensor:
        query, key, value = ops.split(self.conv1d(self.in_proj_qkv(x), step), sizes=self._sizes)
        mixed = self.rule(
            ops.reshape(query, shape=step.shape(*self._key)),
            ops.reshape(key, shape=step.shape(*self._key)),
            ops.reshape(value, shape=step.shape(*self._value)),
            ops.decay_gate(self.in_proj_a(x), self.A_log, self.dt_bias),
            ops.activation(self.in_proj_b(x), kind="sigmoid"),
            step,
        )
        gate = ops.reshape(self.in_proj_z(x), shape=step.shape(*self._value))
        gated = ops.gated_activation(gate, self.norm(mixed), kind="silu")
        return self.out_proj(ops.reshape(gated, shape=step.shape(self._sizes[2])))


class Layer(Module):
    """``x += mixer(norm(x))``, then ``x += mlp(norm(x))``."""

    def __init__(
        self, config: Qwen35Config, mixer: GatedDeltaNet | GatedAttention, mlp: Callable[[Tensor], Tensor]
    ) -> None:
        self.input_layernorm = norm(config, config.hidden_size)
        self._mixer = mixer
        if isinstance(mixer, GatedDeltaNet):
            self.linear_attn = mixer
        else:
            self.self_attn = mixer
        self.post_attention_layernorm = norm(config, config.hidden_size)
        self.mlp = mlp

    def __call__(self, x: Tensor, step: Step) -> Tensor:
        x = x + self._mixer(self.input_layernorm(x), step)
        return x + self.mlp(self.post_attention_layernorm(x))


class Qwen35(DecoderLM):
    config_class = Qwen35Config
    gguf_names = GGUF_NAMES
    ignored_tensors = (*DecoderLM.ignored_tensors, "model.visual.*", "mtp.*")

    def __init__(self, config: Qwen35Config, mlp: Callable[[Any], Callable[[Tensor], Tensor]] = GatedMLP.of) -> None:
        rotary = RotaryEmbedding(config.rope_parameters, config.head_dim, config.max_position_embeddings)
        kinds = [config.layer_type(layer) for layer in range(config.num_hidden_layers)]
        layers = [
            Layer(
                config,
                GatedDeltaNet(config) if kind == "linear_attention" else GatedAttention(config, rotary),
                mlp(config),
            )
            for kind in kinds
        ]
        super().__init__(config, layers, weight_offset=config.norm_offset)
        prediction = range(len(kinds), len(kinds) + config.num_nextn_predict_layers)
        self.ignored_tensors = (*self.ignored_tensors, *(f"blk.{layer}.*" for layer in prediction))

    def huggingface_names(self, parameter: str) -> tuple[str, ...]:
        """As in the whole model, or as in a checkpoint of its text part."""
        return tuple(dict.fromkeys((parameter.replace("model.", "model.language_model.", 1), parameter)))

    def gguf_transform(self, parameter: str) -> Callable[[Weight], Weight] | None:
        return logarithm_of_rates if parameter.endswith(".A_log") else None


def norm(config: Qwen35Config, size: int) -> RMSNorm:
    """A norm over ``size`` values whose weight is stored as ``config`` says."""
    return RMSNorm(size, eps=config.rms_norm_eps, weight_offset=config.norm_offset)
