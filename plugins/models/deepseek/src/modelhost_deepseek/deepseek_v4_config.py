"""The configuration of DeepSeek-V4.

Source: transformers ``models/deepseek_v4/configuration_deepseek_v4.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from modelhost.api.model import ModelConfig, PositiveFloat, PositiveInt, RopeParameters
from modelhost.api.rope_fields import rope_from_huggingface

AttentionKind = Literal["sliding_attention", "compressed_sparse_attention", "heavily_compressed_attention"]
SLIDING: AttentionKind = "sliding_attention"
SPARSE: AttentionKind = "compressed_sparse_attention"
HEAVY: AttentionKind = "heavily_compressed_attention"

Scoring = Literal["sigmoid", "sqrt_softplus"]
_KIND_OF_RATIO = {0: SLIDING, 4: SPARSE, 128: HEAVY}
_DEFAULT_HASH_LAYERS = 3
_DEFAULT_ROTATED = 64 / 512
_LENGTH_DEPENDENT = ("dynamic", "longrope")


class DeepseekV4Config(ModelConfig):
    """Fields of a config.json, those of the files that DeepSeek published included.

    Attributes:
        layer_types: the attention of every layer.
        sparse_rate: tokens of one entry in layers of ``compressed_sparse_attention``.
        heavy_rate: tokens of one entry in layers of ``heavily_compressed_attention``.
        mlp_layer_types: whether the experts of a token are looked up by its id (``hash_moe``) or chosen (``moe``).
        main_rope: of sliding layers.
        compress_rope: of the other layers.
    """

    vocab_size: PositiveInt
    hidden_size: PositiveInt
    moe_intermediate_size: PositiveInt
    num_hidden_layers: PositiveInt
    num_attention_heads: PositiveInt
    num_key_value_heads: Literal[1] = 1
    head_dim: PositiveInt
    q_lora_rank: PositiveInt
    o_groups: PositiveInt
    o_lora_rank: PositiveInt
    sliding_window: PositiveInt = 128
    layer_types: tuple[AttentionKind, ...]
    sparse_rate: PositiveInt = 4
    heavy_rate: PositiveInt = 128
    index_n_heads: PositiveInt
    index_head_dim: PositiveInt
    index_topk: PositiveInt
    hc_mult: PositiveInt = 4
    hc_sinkhorn_iters: PositiveInt = 20
    hc_eps: PositiveFloat = 1e-6
    mlp_layer_types: tuple[Literal["hash_moe", "moe"], ...]
    n_routed_experts: PositiveInt
    n_shared_experts: Literal[1] = 1
    num_experts_per_tok: PositiveInt
    scoring_func: Literal["sigmoid", "sqrtsoftplus"] = "sqrtsoftplus"
    norm_topk_prob: Literal[True] = True
    routed_scaling_factor: PositiveFloat = 1.5
    swiglu_limit: PositiveFloat = 10.0
    hidden_act: Literal["silu", "gelu", "relu"] = "silu"
    mlp_bias: Literal[False] = False
    rms_norm_eps: PositiveFloat = 1e-6
    max_position_embeddings: PositiveInt = 1048576
    main_rope: RopeParameters
    compress_rope: RopeParameters
    tie_word_embeddings: bool = False

    @property
    def scoring(self) -> Scoring:
        """How the router's logits become scores, as :class:`~modelhost.api.blocks.Routing` takes it."""
        return "sqrt_softplus" if self.scoring_func == "sqrtsoftplus" else self.scoring_func

    @classmethod
    def huggingface_fields(cls, raw: Mapping[str, Any]) -> dict[str, Any]:
        fields = {name: value for name, value in raw.items() if value is not None}
        rates = fields.get("compress_rates") or {}
        derived = {
            "layer_types": _layer_types(fields),
            "mlp_layer_types": _mlp_layer_types(fields),
            "sparse_rate": fields.get("compress_rate_csa", rates.get(SPARSE)),
            "heavy_rate": fields.get("compress_rate_hca", rates.get(HEAVY)),
            **_ropes(fields),
        }
        return fields | {name: value for name, value in derived.items() if value is not None}

    @classmethod
    def huggingface_paths(cls, raw: Mapping[str, Any]) -> dict[str, str]:
        scalars = {"sparse_rate": "compress_rate_csa", "heavy_rate": "compress_rate_hca"}
        rates = {"sparse_rate": f"compress_rates.{SPARSE}", "heavy_rate": f"compress_rates.{HEAVY}"}
        paths = {field: name if name in raw else rates[field] for field, name in scalars.items()}
        older = {"layer_types": "compress_ratios", "mlp_layer_types": "num_hash_layers"}
        paths |= {field: name for field, name in older.items() if raw.get(field) is None and raw.get(name) is not None}
        ropes = "rope_scaling" if raw.get("rope_scaling") else "rope_parameters"
        nested = _is_nested(raw.get("rope_parameters"))
        return paths | {f"{kind}_rope": f"rope_parameters.{kind}" if nested else ropes for kind in ("main", "compress")}

    def check(self) -> None:
        super().check()
        for name in ("layer_types", "mlp_layer_types"):
            count = len(getattr(self, name))
            if count != self.num_hidden_layers:
                raise ValueError(f"{name} has {count} entries, num_hidden_layers is {self.num_hidden_layers}")
        if self.num_attention_heads % self.o_groups:
            raise ValueError(
                f"num_attention_heads {self.num_attention_heads} is not a multiple of o_groups {self.o_groups}"
            )
        if self.num_experts_per_tok > self.n_routed_experts:
            raise ValueError(
                f"num_experts_per_tok {self.num_experts_per_tok} is more than n_routed_experts {self.n_routed_experts}"
            )
        if self.sparse_rate < 2 or self.heavy_rate < 2:
            raise ValueError(f"compress_rates must be at least 2, got {self.sparse_rate} and {self.heavy_rate}")
        self._check_ropes()

    def _check_ropes(self) -> None:
        for kind, rope in (("main", self.main_rope), ("compress", self.compress_rope)):
            if rope.rope_type in _LENGTH_DEPENDENT:
                raise ValueError(f"rope_parameters.{kind}: rope_type {rope.rope_type!r} is not supported here")
            rope.rotated(self.head_dim)
        rotated = self.compress_rope.rotated(self.head_dim)
        if SPARSE in self.layer_types and rotated > self.index_head_dim:
            raise ValueError(f"index_head_dim {self.index_head_dim} is less than the {rotated} dimensions to rotate")


def _layer_types(fields: Mapping[str, Any]) -> Any:
    """The attention of every layer: as stated, from DeepSeek's ratios, or two heavy ones and then both in turn."""
    layers = fields.get("num_hidden_layers")
    if "layer_types" in fields or not isinstance(layers, int):
        return fields.get("layer_types")
    if "compress_ratios" in fields:
        return [_KIND_OF_RATIO.get(ratio, ratio) for ratio in fields["compress_ratios"]][:layers]
    return [SPARSE if layer % 2 and layer > 2 else HEAVY for layer in range(layers)]


def _mlp_layer_types(fields: Mapping[str, Any]) -> Any:
    layers, hashed = fields.get("num_hidden_layers"), fields.get("num_hash_layers", _DEFAULT_HASH_LAYERS)
    if "mlp_layer_types" in fields or not isinstance(layers, int) or not isinstance(hashed, int):
        return fields.get("mlp_layer_types")
    return ["hash_moe" if layer < hashed else "moe" for layer in range(layers)]


def _ropes(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Both ropes: as stated under their names, or made from one description, whose scaling is for ``compress`` only."""
    stated = fields.get("rope_parameters")
    if isinstance(stated, Mapping) and _is_nested(stated):
        return {"main_rope": stated["main"], "compress_rope": stated["compress"]}
    shared = rope_from_huggingface(fields)
    if not isinstance(shared, Mapping):
        return {"main_rope": shared, "compress_rope": shared}
    theta = {"main": fields.get("rope_theta", 10000.0), "compress": fields.get("compress_rope_theta", 160000.0)}
    rotated = {"partial_rotary_factor": _partial_rotary_factor(fields)}
    scaling = {"attention_factor": 1.0} if shared.get("rope_type") == "yarn" else {}
    return {
        "main_rope": rotated | {"rope_theta": theta["main"]},
        "compress_rope": scaling | dict(shared) | rotated | {"rope_theta": theta["compress"]},
    }


def _is_nested(rope: Any) -> bool:
    return isinstance(rope, Mapping) and all(isinstance(rope.get(kind), Mapping) for kind in ("main", "compress"))


def _partial_rotary_factor(fields: Mapping[str, Any]) -> Any:
    if "partial_rotary_factor" in fields:
        return fields["partial_rotary_factor"]
    rotated, size = fields.get("qk_rope_head_dim"), fields.get("head_dim")
    return rotated / size if isinstance(rotated, int) and isinstance(size, int) and size else _DEFAULT_ROTATED
