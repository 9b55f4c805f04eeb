"""The configuration of Kimi Linear.

Source: transformers ``models/kimi_linear/configuration_kimi_linear.py``; GGUF keys: llama.cpp
``conversion/kimi_linear.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from modelhost.api.model import (
    CheckpointInfo,
    LatentAttentionConfig,
    MoEConfig,
    PositiveFloat,
    PositiveInt,
)

LayerKind = Literal["linear_attention", "full_attention"]

_NAMES = {
    "max_position_embeddings": "model_max_length",
    "n_routed_experts": "num_experts",
    "num_experts_per_tok": "num_experts_per_token",
    "n_shared_experts": "num_shared_experts",
    "n_group": "num_expert_group",
    "norm_topk_prob": "moe_renormalize",
    "scoring_func": "moe_router_activation_func",
}
_NESTED = {
    "linear_head_dim": "head_dim",
    "linear_num_heads": "num_heads",
    "linear_conv_kernel_dim": "short_conv_kernel_size",
}


class KimiLinearConfig(LatentAttentionConfig, MoEConfig):
    """Without ``layer_types``, each fourth layer but the first is one of full attention.

    Checkpoints have names of their own for many fields, and some in ``linear_attn_config``, whose lists of layers count
    from 1.
    """

    gguf_fields: ClassVar[Mapping[str, str]] = {
        **MoEConfig.gguf_fields,
        **LatentAttentionConfig.gguf_fields,
        "linear_head_dim": "kda.head_dim",
        "linear_conv_kernel_dim": "ssm.conv_kernel",
    }

    rms_norm_eps: PositiveFloat = 1e-5
    scoring_func: Literal["sigmoid"] = "sigmoid"
    topk_method: Literal["noaux_tc"] = "noaux_tc"
    norm_topk_prob: bool = True
    routed_scaling_factor: PositiveFloat = 2.446
    first_k_dense_replace: int = 1
    layer_types: tuple[LayerKind, ...] | None = None
    linear_head_dim: PositiveInt = 128
    linear_num_heads: PositiveInt = 32
    linear_conv_kernel_dim: PositiveInt = 4

    def check(self) -> None:
        super().check()
        if self.layer_types is not None and len(self.layer_types) != self.num_hidden_layers:
            raise ValueError(
                f"layer_types has {len(self.layer_types)} entries, num_hidden_layers is {self.num_hidden_layers}"
            )

    @classmethod
    def huggingface_fields(cls, raw: Mapping[str, Any]) -> dict[str, Any]:
        nested = _linear_attention(raw)
        renamed = {field: raw[name] for field, name in _NAMES.items() if raw.get(name) is not None}
        renamed |= {field: nested[name] for field, name in _NESTED.items() if nested.get(name) is not None}
        fields = super().huggingface_fields({**raw, **renamed})
        full, layers = nested.get("full_attn_layers"), raw.get("num_hidden_layers")
        if raw.get("layer_types") is None and isinstance(full, list) and isinstance(layers, int):
            kinds = ["full_attention" if layer + 1 in full else "linear_attention" for layer in range(layers)]
            fields["layer_types"] = kinds
        return fields

    @classmethod
    def huggingface_paths(cls, raw: Mapping[str, Any]) -> dict[str, str]:
        nested = _linear_attention(raw)
        paths = {field: name for field, name in _NAMES.items() if raw.get(name) is not None}
        paths |= {field: f"linear_attn_config.{name}" for field, name in _NESTED.items() if name in nested}
        return super().huggingface_paths(raw) | paths

    @classmethod
    def gguf_values(cls, info: CheckpointInfo) -> dict[str, Any]:
        fields = super().gguf_values(info)
        fields |= {"topk_method": "noaux_tc", "linear_num_heads": fields.get("num_attention_heads")}
        fields["norm_topk_prob"] = info.config.get(f"{info.architecture}.expert_weights_norm", True)
        heads = info.config.get(f"{info.architecture}.attention.head_count_kv")
        if isinstance(heads, list):
            fields["layer_types"] = ["full_attention" if count else "linear_attention" for count in heads]
        return fields

    def layer_type(self, layer: int) -> LayerKind:
        """The kind of a layer, counted from 0."""
        if self.layer_types is not None:
            return self.layer_types[layer]
        return "full_attention" if layer and layer % 4 == 0 else "linear_attention"


def _linear_attention(raw: Mapping[str, Any]) -> Mapping[str, Any]:
    nested = raw.get("linear_attn_config")
    return nested if isinstance(nested, Mapping) else {}
