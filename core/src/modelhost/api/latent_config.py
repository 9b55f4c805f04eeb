"""Configurations of decoders with latent attention, in DeepSeek's terms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from pydantic import PositiveInt

from .config import CheckpointInfo, DecoderConfig
from .errors import WeightError
from .weight import Pieces, Weight

__all__ = ["GGUF_LATENT_NAMES", "IndexedAttentionConfig", "LatentAttentionConfig", "latent_pieces"]

_ATTENTION = {
    "q_a_proj": "attn_q_a",
    "q_a_layernorm": "attn_q_a_norm",
    "q_b_proj": "attn_q_b",
    "kv_a_proj_with_mqa": "attn_kv_a_mqa",
    "kv_a_layernorm": "attn_kv_a_norm",
    "kv_b_proj": "attn_kv_b",
    "indexer.wq_b": "indexer.attn_q_b",
    "indexer.wk": "indexer.attn_k",
    "indexer.k_norm": "indexer.k_norm",
    "indexer.weights_proj": "indexer.proj",
}
GGUF_LATENT_NAMES: dict[str, str] = {
    f"model.layers.{{}}.self_attn.{module}": f"blk.{{}}.{tensor}" for module, tensor in _ATTENTION.items()
}
"""As ``CausalLM.gguf_names``, of the module :class:`~modelhost.api.blocks.LatentAttention`."""


def latent_pieces(tensor: str) -> Pieces | None:
    """For ``CausalLM.gguf_pieces``, given the GGUF name of a parameter.

    Newer files hold the up-projection of latents in two tensors: the rows that make keys, transposed for each head,
    and those that make values.
    """
    prefix, found, _ = tensor.partition("attn_kv_b.weight")
    return Pieces((f"{prefix}attn_k_b.weight", f"{prefix}attn_v_b.weight"), _up_projection) if found else None


def _up_projection(weights: Sequence[Weight]) -> Weight:
    import numpy as np

    keys, values = weights
    if len(keys.shape) != 3 or len(values.shape) != 3 or keys.shape[:2] != (values.shape[0], values.shape[2]):
        raise WeightError(
            f"{keys.name} of shape {keys.shape} and {values.name} of shape {values.shape} do not fit each other; "
            "wanted (heads, latent, key) and (heads, value, latent)"
        )
    rows = np.concatenate([keys.dequantize().swapaxes(1, 2), values.dequantize()], axis=1)
    return Weight.of_values(f"{keys.name} and {values.name}", rows.reshape(-1, rows.shape[-1]))


class LatentAttentionConfig(DecoderConfig):
    """A decoder with latent attention. ``head_dim`` is the rotated part of a head, ``qk_rope_head_dim``.

    Attributes:
        q_lora_rank: features of the compressed query; ``None`` where queries are projected directly.
        rope_interleave: rotated pairs are neighbours.
    """

    gguf_fields: ClassVar[Mapping[str, str]] = {
        **{field: key for field, key in DecoderConfig.gguf_fields.items() if field != "head_dim"},
        "q_lora_rank": "attention.q_lora_rank",
        "kv_lora_rank": "attention.kv_lora_rank",
        "qk_rope_head_dim": "rope.dimension_count",
        "v_head_dim": "attention.value_length_mla",
    }
    derived_fields: ClassVar[Mapping[str, tuple[str, ...]]] = {
        **DecoderConfig.derived_fields,
        "head_dim": ("qk_rope_head_dim",),
    }

    q_lora_rank: PositiveInt | None = None
    kv_lora_rank: PositiveInt
    qk_nope_head_dim: PositiveInt
    qk_rope_head_dim: PositiveInt
    v_head_dim: PositiveInt
    rope_interleave: bool = True

    @classmethod
    def huggingface_fields(cls, raw: Mapping[str, Any]) -> dict[str, Any]:
        rotated = {"head_dim": raw.get("qk_rope_head_dim"), "num_key_value_heads": raw.get("num_attention_heads")}
        return {**super().huggingface_fields(raw), **rotated}

    @classmethod
    def huggingface_paths(cls, raw: Mapping[str, Any]) -> dict[str, str]:
        return super().huggingface_paths(raw) | {"head_dim": "qk_rope_head_dim"}

    @classmethod
    def gguf_values(cls, info: CheckpointInfo) -> dict[str, Any]:
        fields = super().gguf_values(info)
        rotated, prefix = fields.get("qk_rope_head_dim"), f"{info.architecture}.attention"
        key = info.config.get(f"{prefix}.key_length_mla", info.config.get(f"{prefix}.key_length"))
        if key is not None and rotated is not None:
            fields["qk_nope_head_dim"] = key - rotated
        fields.setdefault("v_head_dim", info.config.get(f"{prefix}.value_length"))
        fields["head_dim"], fields["num_key_value_heads"] = rotated, fields.get("num_attention_heads")
        fields["attention_bias"] = "blk.0.attn_kv_a_mqa.bias" in info
        fields["rope_parameters"] = cls._gguf_rope(fields["rope_parameters"], info)
        return fields

    @staticmethod
    def _gguf_rope(rope: Mapping[str, Any], info: CheckpointInfo) -> dict[str, Any]:
        """GGUF states the magnitude of scores as a tenth, and that of rotated parts not at all: it is 1."""
        rope = {field: value for field, value in rope.items() if field != "partial_rotary_factor"}
        tenth = info.config.get(f"{info.architecture}.rope.scaling.yarn_log_multiplier")
        return rope if tenth is None else rope | {"mscale_all_dim": 10 * tenth, "mscale": 10 * tenth}


class IndexedAttentionConfig(LatentAttentionConfig):
    """Latent attention over the tokens that an indexer chooses.

    Attributes:
        index_topk: tokens that a token attends to.
    """

    gguf_fields: ClassVar[Mapping[str, str]] = {
        **LatentAttentionConfig.gguf_fields,
        "index_n_heads": "attention.indexer.head_count",
        "index_head_dim": "attention.indexer.key_length",
        "index_topk": "attention.indexer.top_k",
    }

    q_lora_rank: PositiveInt
    index_n_heads: PositiveInt
    index_head_dim: PositiveInt
    index_topk: PositiveInt

    def check(self) -> None:
        super().check()
        if self.index_head_dim < self.qk_rope_head_dim:
            raise ValueError(
                f"index_head_dim {self.index_head_dim} is less than qk_rope_head_dim {self.qk_rope_head_dim}, "
                "which is rotated"
            )
