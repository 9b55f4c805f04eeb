"""Configurations of decoders with routed experts, in DeepSeek's terms."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from pydantic import NonNegativeInt, PositiveFloat, PositiveInt

from modelhost.graph.ops.moe import Scoring

from .blocks.moe import Routing
from .config import CheckpointInfo, DecoderConfig

__all__ = ["GGUF_MOE_NAMES", "MoEConfig"]

TopKMethod = Literal["greedy", "group_limited_greedy", "noaux_tc"]
_ALIASES = {"n_routed_experts": ("num_local_experts", "num_experts")}
_GATING: dict[int, Scoring] = {1: "softmax", 2: "sigmoid"}

GGUF_MOE_NAMES: dict[str, str] = {
    "model.layers.{}.mlp.gate": "blk.{}.ffn_gate_inp",
    "model.layers.{}.mlp.gate.e_score_correction_bias": "blk.{}.exp_probs_b.bias",
    "model.layers.{}.mlp.experts.gate_proj": "blk.{}.ffn_gate_exps",
    "model.layers.{}.mlp.experts.up_proj": "blk.{}.ffn_up_exps",
    "model.layers.{}.mlp.experts.down_proj": "blk.{}.ffn_down_exps",
    "model.layers.{}.mlp.shared_experts.gate_proj": "blk.{}.ffn_gate_shexp",
    "model.layers.{}.mlp.shared_experts.up_proj": "blk.{}.ffn_up_shexp",
    "model.layers.{}.mlp.shared_experts.down_proj": "blk.{}.ffn_down_shexp",
}
"""As ``CausalLM.gguf_names``, of the module :class:`~modelhost.api.blocks.MoE`."""


class MoEConfig(DecoderConfig):
    """Some layers have an MLP, the others experts; GGUF keys are those of llama.cpp.

    Attributes:
        topk_method: ``greedy`` takes the best experts of all; ``group_limited_greedy`` of the groups with the best
            single expert; ``noaux_tc`` of the groups with the best pair, and adds a correction bias for the choice.
        first_k_dense_replace: layers with an MLP, before all with experts.
        mlp_layer_types: the kind of each layer; ``None`` where ``first_k_dense_replace`` decides.
        num_nextn_predict_layers: further layers of the checkpoint, for predicting more tokens, which are set aside.
    """

    gguf_fields: ClassVar[Mapping[str, str]] = {
        **DecoderConfig.gguf_fields,
        "n_routed_experts": "expert_count",
        "num_experts_per_tok": "expert_used_count",
        "moe_intermediate_size": "expert_feed_forward_length",
        "n_shared_experts": "expert_shared_count",
        "n_group": "expert_group_count",
        "topk_group": "expert_group_used_count",
        "norm_topk_prob": "expert_weights_norm",
        "routed_scaling_factor": "expert_weights_scale",
        "first_k_dense_replace": "leading_dense_block_count",
        "num_nextn_predict_layers": "nextn_predict_layers",
    }

    n_routed_experts: PositiveInt
    num_experts_per_tok: PositiveInt
    moe_intermediate_size: PositiveInt
    n_shared_experts: NonNegativeInt | None = None
    n_group: PositiveInt | None = None
    topk_group: PositiveInt | None = None
    norm_topk_prob: bool = False
    routed_scaling_factor: PositiveFloat = 1.0
    scoring_func: Scoring = "softmax"
    topk_method: TopKMethod = "greedy"
    first_k_dense_replace: NonNegativeInt = 0
    moe_layer_freq: Literal[1] = 1
    mlp_layer_types: tuple[Literal["dense", "sparse"], ...] | None = None
    num_nextn_predict_layers: NonNegativeInt = 0

    @classmethod
    def huggingface_fields(cls, raw: Mapping[str, Any]) -> dict[str, Any]:
        fields = super().huggingface_fields(raw)
        for field, others in _ALIASES.items():
            given = next((raw[name] for name in (field, *others) if raw.get(name) is not None), None)
            fields |= {} if given is None else {field: given}
        return fields

    @classmethod
    def huggingface_paths(cls, raw: Mapping[str, Any]) -> dict[str, str]:
        names = {
            field: next((name for name in (field, *others) if raw.get(name) is not None), field)
            for field, others in _ALIASES.items()
        }
        return super().huggingface_paths(raw) | names

    @classmethod
    def gguf_values(cls, info: CheckpointInfo) -> dict[str, Any]:
        fields = super().gguf_values(info)
        fields["num_hidden_layers"] = fields.get("num_hidden_layers", 0) - fields.get("num_nextn_predict_layers", 0)
        fields.setdefault("norm_topk_prob", False)
        corrected = f"blk.{fields.get('first_k_dense_replace', 0)}.exp_probs_b.bias" in info
        gating = info.config.get(f"{info.architecture}.expert_gating_func") or (2 if corrected else 1)
        fields["scoring_func"] = _GATING.get(gating, gating)
        grouped = fields.get("n_group", 1) > 1
        fields["topk_method"] = "noaux_tc" if corrected else "group_limited_greedy" if grouped else "greedy"
        return fields

    @classmethod
    def gguf_paths(cls, architecture: str) -> dict[str, str]:
        return super().gguf_paths(architecture) | {"scoring_func": f"{architecture}.expert_gating_func"}

    @property
    def groups(self) -> int:
        """Groups that experts are chosen by; 1 where they are chosen of all."""
        return 1 if self.topk_method == "greedy" else self.n_group or 1

    @property
    def top_groups(self) -> int:
        """Groups that experts are chosen of."""
        return 1 if self.groups == 1 else self.topk_group or 1

    @property
    def routing(self) -> Routing:
        """How experts are chosen."""
        return Routing(
            self.num_experts_per_tok,
            self.scoring_func,
            self.groups,
            self.top_groups,
            "top2_sum" if self.topk_method == "noaux_tc" else "max",
            self.norm_topk_prob,
            self.routed_scaling_factor,
        )

    @property
    def next_token_tensors(self) -> tuple[str, ...]:
        """Patterns of the tensors of the layers for predicting more tokens, as ``CausalLM.ignored_tensors``."""
        extra = range(self.num_hidden_layers, self.num_hidden_layers + max(1, self.num_nextn_predict_layers))
        return tuple(pattern.format(layer) for layer in extra for pattern in ("model.layers.{}.*", "blk.{}.*"))

    def is_sparse(self, layer: int) -> bool:
        """Whether a layer, counted from 0, has experts."""
        if self.mlp_layer_types is not None:
            return self.mlp_layer_types[layer] == "sparse"
        return layer >= self.first_k_dense_replace

    def check(self) -> None:
        super().check()
        experts, groups, top = self.n_routed_experts, self.groups, self.top_groups
        if experts % groups:
            raise ValueError(f"n_routed_experts {experts} is not a multiple of n_group {groups}")
        if top > groups:
            raise ValueError(f"topk_group {top} is more than n_group {groups}")
        if self.num_experts_per_tok > experts // groups * top:
            raise ValueError(
                f"num_experts_per_tok {self.num_experts_per_tok} is more than the {experts // groups * top} experts "
                "that can be chosen of"
            )
        types = self.mlp_layer_types
        if types is not None and len(types) != self.num_hidden_layers:
            raise ValueError(f"mlp_layer_types has {len(types)} entries, num_hidden_layers is {self.num_hidden_layers}")
