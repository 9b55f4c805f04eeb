"""GLM-4 (0414): norms before and after attention and MLP, interleaved rotation of a part of every head.

References: transformers ``models/glm4/modeling_glm4.py``, llama.cpp ``conversion/glm.py`` and ``src/models/glm4.cpp``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from modelhost.api.blocks import Attention, Linear, RMSNorm
from modelhost.api.model import GGUF_DECODER_NAMES, DecoderConfig, DecoderLM, Module, RotaryEmbedding, Step, Tensor
from modelhost.graph import ops


class Glm4Config(DecoderConfig):
    """Half of every head is rotated where the configuration does not say."""

    attention_bias: bool = True

    @classmethod
    def huggingface_fields(cls, raw: Mapping[str, Any]) -> dict[str, Any]:
        fields = super().huggingface_fields(raw)
        rope = fields["rope_parameters"]
        if isinstance(rope, Mapping):
            fields["rope_parameters"] = {"partial_rotary_factor": 0.5, **rope}
        return fields


class Glm4MLP(Module):
    """``down(activation(gate(x)) * up(x))``, the rows of gate and then of up being those of one matrix."""

    def __init__(self, config: Glm4Config) -> None:
        self.gate_up_proj = Linear(config.hidden_size, 2 * config.intermediate_size, sharding="column")
        self.down_proj = Linear(config.intermediate_size, config.hidden_size, sharding="row")
        self._size, self._activation = config.intermediate_size, config.hidden_act

    def __call__(self, x: Tensor) -> Tensor:
        gate, up = ops.split(self.gate_up_proj(x), sizes=(self._size, self._size))
        return self.down_proj(ops.gated_activation(gate, up, kind=self._activation))


class Glm4Layer(Module):
    def __init__(self, config: Glm4Config, rotary: RotaryEmbedding) -> None:
        self.input_layernorm = _norm(config)
        self.self_attn = Attention.of(config, rotary, output_bias=False)
        self.post_self_attn_layernorm = _norm(config)
        self.post_attention_layernorm = _norm(config)
        self.mlp = Glm4MLP(config)
        self.post_mlp_layernorm = _norm(config)

    def __call__(self, x: Tensor, step: Step) -> Tensor:
        x = x + self.post_self_attn_layernorm(self.self_attn(self.input_layernorm(x), step))
        return x + self.post_mlp_layernorm(self.mlp(self.post_attention_layernorm(x)))


class Glm4(DecoderLM):
    config_class = Glm4Config
    gguf_names = GGUF_DECODER_NAMES | {
        "model.layers.{}.post_self_attn_layernorm": "blk.{}.post_attention_norm",
        "model.layers.{}.post_mlp_layernorm": "blk.{}.post_ffw_norm",
        "model.layers.{}.mlp.gate_up_proj": "blk.{}.ffn_up",
    }

    def __init__(self, config: Glm4Config) -> None:
        positions = config.max_position_embeddings
        rotary = RotaryEmbedding(config.rope_parameters, config.head_dim, positions, interleaved=True)
        super().__init__(config, [Glm4Layer(config, rotary) for _ in range(config.num_hidden_layers)])


def _norm(config: Glm4Config) -> RMSNorm:
    return RMSNorm(config.hidden_size, eps=config.rms_norm_eps)
