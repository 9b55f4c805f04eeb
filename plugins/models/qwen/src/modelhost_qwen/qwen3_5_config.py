"""The configuration of Qwen3.5.

Source: transformers ``models/qwen3_5/configuration_qwen3_5.py``; GGUF keys: llama.cpp ``src/models/qwen35.cpp``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from pydantic import NonNegativeInt

from modelhost.api.model import CheckpointInfo, DecoderConfig, PositiveInt

LayerKind = Literal["linear_attention", "full_attention"]


class Qwen35Config(DecoderConfig):
    """Without ``layer_types``, each layer of a multiple of ``full_attention_interval``, counted from 1, is a full one.

    Attributes:
        norm_offset: added to the weights of all norms but the gated ones. Hugging Face checkpoints store ``w``, GGUF
            files ``1 + w``.
        key_heads: how the value heads of a gated delta net share its key heads.
        num_nextn_predict_layers: blocks for multi-token prediction after the last layer, in GGUF files.
    """

    gguf_fields: ClassVar[Mapping[str, str]] = {
        **DecoderConfig.gguf_fields,
        "full_attention_interval": "full_attention_interval",
        "linear_conv_kernel_dim": "ssm.conv_kernel",
        "linear_key_head_dim": "ssm.state_size",
        "linear_num_key_heads": "ssm.group_count",
        "linear_num_value_heads": "ssm.time_step_rank",
        "num_nextn_predict_layers": "nextn_predict_layers",
    }

    head_dim: PositiveInt = 256
    layer_types: tuple[LayerKind, ...] | None = None
    full_attention_interval: PositiveInt = 4
    linear_conv_kernel_dim: PositiveInt = 4
    linear_key_head_dim: PositiveInt = 128
    linear_value_head_dim: PositiveInt = 128
    linear_num_key_heads: PositiveInt = 16
    linear_num_value_heads: PositiveInt = 32
    norm_offset: float = 1.0
    key_heads: Literal["grouped", "tiled"] = "grouped"
    num_nextn_predict_layers: NonNegativeInt = 0

    def check(self) -> None:
        super().check()
        if self.layer_types is not None and len(self.layer_types) != self.num_hidden_layers:
            raise ValueError(
                f"layer_types has {len(self.layer_types)} entries, num_hidden_layers is {self.num_hidden_layers}"
            )
        if self.linear_num_value_heads % self.linear_num_key_heads:
            raise ValueError(
                f"linear_num_value_heads {self.linear_num_value_heads} is not a multiple of "
                f"linear_num_key_heads {self.linear_num_key_heads}"
            )

    @classmethod
    def huggingface_fields(cls, raw: Mapping[str, Any]) -> dict[str, Any]:
        fields = super().huggingface_fields(raw)
        rope = fields["rope_parameters"]
        if isinstance(rope, Mapping):
            fields["rope_parameters"] = {"partial_rotary_factor": 0.25, **rope}
        return fields

    @classmethod
    def gguf_values(cls, info: CheckpointInfo) -> dict[str, Any]:
        fields = super().gguf_values(info) | {"norm_offset": 0.0, "key_heads": "tiled"}
        inner, heads = info.config.get(f"{info.architecture}.ssm.inner_size"), fields.get("linear_num_value_heads")
        if inner and heads:
            fields["linear_value_head_dim"] = inner // heads
        if "num_hidden_layers" in fields:
            fields["num_hidden_layers"] -= fields.get("num_nextn_predict_layers", 0)
        return fields

    def layer_type(self, layer: int) -> LayerKind:
        """The kind of a layer, counted from 0."""
        if self.layer_types is not None:
            return self.layer_types[layer]
        return "linear_attention" if (layer + 1) % self.full_attention_interval else "full_attention"
