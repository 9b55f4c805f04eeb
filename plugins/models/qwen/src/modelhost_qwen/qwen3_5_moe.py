"""Qwen3.5 with experts, text: the layers of Qwen3.5, each with a mixture of experts and one gated shared expert.

References: transformers ``models/qwen3_5_moe/modeling_qwen3_5_moe.py``; for GGUF files llama.cpp
``src/models/qwen35moe.cpp``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from modelhost.api.blocks import Experts, GatedMLP, Linear, MoE, Router, Routing
from modelhost.api.model import GGUF_MOE_NAMES, PositiveInt, Tensor
from modelhost.graph import ops

from .qwen3_5 import GGUF_NAMES, Qwen35
from .qwen3_5_config import Qwen35Config


class Qwen35MoeConfig(Qwen35Config):
    """``intermediate_size`` is of no use: every layer has experts."""

    gguf_fields: ClassVar[Mapping[str, str]] = {
        **Qwen35Config.gguf_fields,
        "num_experts": "expert_count",
        "num_experts_per_tok": "expert_used_count",
        "moe_intermediate_size": "expert_feed_forward_length",
        "shared_expert_intermediate_size": "expert_shared_feed_forward_length",
    }

    intermediate_size: PositiveInt = 1
    moe_intermediate_size: PositiveInt = 512
    shared_expert_intermediate_size: PositiveInt = 512
    num_experts: PositiveInt = 256
    num_experts_per_tok: PositiveInt = 8

    def check(self) -> None:
        super().check()
        if self.num_experts_per_tok > self.num_experts:
            raise ValueError(
                f"num_experts_per_tok {self.num_experts_per_tok} is more than num_experts {self.num_experts}"
            )


class GatedSharedMoE(MoE):
    """Experts, and a shared one whose result is multiplied by the sigmoid of a number that the token gives."""

    def __init__(self, config: Qwen35MoeConfig) -> None:
        size, kind = config.hidden_size, config.hidden_act
        routing = Routing(config.num_experts_per_tok, renormalize=True)
        super().__init__(
            Router(size, config.num_experts, routing),
            Experts(size, config.moe_intermediate_size, config.num_experts, activation=kind),
        )
        self.shared_expert = GatedMLP(size, config.shared_expert_intermediate_size, activation=kind)
        self.shared_expert_gate = Linear(size, 1)

    def __call__(self, x: Tensor) -> Tensor:
        share = ops.activation(self.shared_expert_gate(x), kind="sigmoid")
        return super().__call__(x) + ops.scale_rows(self.shared_expert(x), share)


class Qwen35Moe(Qwen35):
    config_class = Qwen35MoeConfig
    gguf_names = (
        GGUF_NAMES
        | GGUF_MOE_NAMES
        | {
            "model.layers.{}.mlp.shared_expert.gate_proj": "blk.{}.ffn_gate_shexp",
            "model.layers.{}.mlp.shared_expert.up_proj": "blk.{}.ffn_up_shexp",
            "model.layers.{}.mlp.shared_expert.down_proj": "blk.{}.ffn_down_shexp",
            "model.layers.{}.mlp.shared_expert_gate": "blk.{}.ffn_gate_inp_shexp",
        }
    )

    def __init__(self, config: Qwen35MoeConfig) -> None:
        super().__init__(config, GatedSharedMoE)
