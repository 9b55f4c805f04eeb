"""Kimi Linear: three layers of delta attention to each layer of latent attention, no positions, routed experts.

References: transformers ``models/kimi_linear/modeling_kimi_linear.py``; for GGUF files llama.cpp
``conversion/kimi_linear.py``. Paper: Kimi Linear (2025).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

from modelhost.api.blocks import (
    DeltaRule,
    GatedMLP,
    LatentAttention,
    Linear,
    MoE,
    PreNormLayer,
    RMSNorm,
    ShortConvolution,
    logarithm_of_rates,
)
from modelhost.api.model import (
    GGUF_DECODER_NAMES,
    GGUF_LATENT_NAMES,
    GGUF_MOE_NAMES,
    DecoderLM,
    Module,
    Parameter,
    Pieces,
    Step,
    Tensor,
    Weight,
    latent_pieces,
)
from modelhost.graph import ops

from .config import KimiLinearConfig

_EXPERTS = {"gate_proj": "w1", "up_proj": "w3", "down_proj": "w2"}
_CONVOLUTIONS = ("q_conv1d", "k_conv1d", "v_conv1d")
_DELTA = {
    "f_a_proj": "ssm_f_a",
    "f_b_proj": "ssm_f_b",
    "b_proj": "ssm_beta",
    "g_a_proj": "ssm_g_a",
    "g_b_proj": "ssm_g_b",
    "A_log": "ssm_a",
    "dt_bias": "ssm_dt.bias",
    "o_norm": "ssm_norm",
    **{name: f"ssm_conv1d_{name[0]}" for name in _CONVOLUTIONS},
}


class DeltaAttention(Module):
    """Linear attention whose decay is different for every channel of a key (KDA)."""

    def __init__(self, config: KimiLinearConfig) -> None:
        self._heads = (config.linear_num_heads, config.linear_head_dim)
        hidden, (heads, rank), width = config.hidden_size, self._heads, config.linear_conv_kernel_dim
        self._size = size = heads * rank
        self.q_proj, self.k_proj, self.v_proj = (Linear(hidden, size) for _ in range(3))
        self.q_conv1d, self.k_conv1d, self.v_conv1d = (ShortConvolution(size, width) for _ in range(3))
        self.f_a_proj, self.f_b_proj = Linear(hidden, rank), Linear(rank, size)
        self.b_proj = Linear(hidden, heads)
        self.A_log = Parameter((heads,))
        self.dt_bias = Parameter((size,))
        self.rule = DeltaRule(heads, rank, rank)
        self.g_a_proj, self.g_b_proj = Linear(hidden, rank), Linear(rank, size)
        self.o_norm = RMSNorm(rank, eps=config.rms_norm_eps)
        self.o_proj = Linear(size, hidden)

    def __call__(self, x: Tensor, step: Step) -> Tensor:
        mixed = self.rule(
            self._split(self.q_conv1d(self.q_proj(x), step), step),
            self._split(self.k_conv1d(self.k_proj(x), step), step),
            self._split(self.v_conv1d(self.v_proj(x), step), step),
            ops.decay_gate(self._split(self.f_b_proj(self.f_a_proj(x)), step), self.A_log, self.dt_bias),
            ops.activation(self.b_proj(x), kind="sigmoid"),
            step,
        )
        gate = self._split(self.g_b_proj(self.g_a_proj(x)), step)
        gated = ops.gated_activation(gate, self.o_norm(mixed), kind="sigmoid")
        return self.o_proj(ops.reshape(gated, shape=step.shape(self._size)))

    def _split(self, x: Tensor, step: Step) -> Tensor:
        return ops.reshape(x, shape=step.shape(*self._heads))


class KimiLinear(DecoderLM):
    config_class = KimiLinearConfig
    gguf_names = (
        GGUF_DECODER_NAMES
        | GGUF_LATENT_NAMES
        | GGUF_MOE_NAMES
        | {f"model.layers.{{}}.self_attn.{name}": f"blk.{{}}.{tensor}" for name, tensor in _DELTA.items()}
    )

    def __init__(self, config: KimiLinearConfig) -> None:
        layers = [
            PreNormLayer(
                DeltaAttention(config)
                if config.layer_type(layer) == "linear_attention"
                else LatentAttention.of(config, rotary=None),
                MoE.of(config) if config.is_sparse(layer) else GatedMLP.of(config),
                hidden_size=config.hidden_size,
                eps=config.rms_norm_eps,
            )
            for layer in range(config.num_hidden_layers)
        ]
        super().__init__(config, layers)

    def huggingface_names(self, parameter: str) -> tuple[str, ...]:
        """As published, or as transformers names its modules."""
        sparse = parameter.replace(".mlp.", ".block_sparse_moe.")
        if ".experts." in parameter:
            numbered = re.sub(r"experts\.(\w+)\.", lambda found: f"experts.{_EXPERTS[found[1]]}.", sparse)
            return numbered, parameter
        fused = re.sub(r"\.[qkv]_conv1d\.", ".conv1d.", parameter)
        gate = re.sub(r"\.self_attn\.(f_[ab]_proj|A_log|dt_bias)", r".self_attn.forget_gate.\1", parameter)
        return tuple(dict.fromkeys((parameter, sparse, fused, gate)))

    def huggingface_transform(self, parameter: str) -> Callable[[Weight], Weight] | None:
        part = next((place for place, name in enumerate(_CONVOLUTIONS) if name in parameter), None)
        return None if part is None else partial(_third, part=part)

    def gguf_pieces(self, parameter: str) -> Pieces | None:
        return latent_pieces(self.gguf_name(parameter))

    def gguf_transform(self, parameter: str) -> Callable[[Weight], Weight] | None:
        return logarithm_of_rates if parameter.endswith(".A_log") else None


def _third(weight: Weight, *, part: int) -> Weight:
    """Queries, keys and values of a convolution over all three; one of its own as it is."""
    if not weight.name.endswith(".conv1d.weight"):
        return weight
    size = weight.shape[0] // 3
    return weight.rows(slice(part * size, (part + 1) * size))
