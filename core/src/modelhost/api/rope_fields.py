"""Reading :class:`~modelhost.api.rope.RopeParameters` from a config.json or from GGUF metadata.

Precedence of fields: transformers ``modeling_rope_utils.py``, ``RotaryEmbeddingConfigMixin``. GGUF keys and their
meaning: llama.cpp ``conversion/base.py`` and ``src/llama-context.cpp``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .config import CheckpointInfo

__all__ = ["rope_from_gguf", "rope_from_huggingface", "rope_gguf_paths", "rope_huggingface_paths"]

_TOP_LEVEL = ("rope_theta", "partial_rotary_factor")
_GGUF_KEYS = {
    "rope_theta": "freq_base",
    "rope_type": "scaling.type",
    "factor": "scaling.factor",
    "original_max_position_embeddings": "scaling.original_context_length",
    "attention_factor": "scaling.yarn_attn_factor",
    "beta_fast": "scaling.yarn_beta_fast",
    "beta_slow": "scaling.yarn_beta_slow",
}


def _given(raw: Mapping[str, Any]) -> tuple[str, Any]:
    name = "rope_scaling" if raw.get("rope_scaling") else "rope_parameters"
    return name, raw.get(name) or {}


def rope_from_huggingface(raw: Mapping[str, Any]) -> Any:
    """The fields of ``rope_parameters``, or of the older ``rope_theta`` and ``rope_scaling``.

    What is there but is not an object is returned as it is, for validation to refuse.
    """
    _, given = _given(raw)
    if not isinstance(given, Mapping):
        return given
    fields = dict(given)
    if "rope_type" not in fields and "type" in fields:
        fields["rope_type"] = fields["type"]
    if fields.get("rope_type") == "su":
        fields["rope_type"] = "longrope"
    for name in _TOP_LEVEL:
        if name not in fields and raw.get(name) is not None:
            fields[name] = raw[name]
    if raw.get("original_max_position_embeddings") is not None:
        fields["original_max_position_embeddings"] = raw["original_max_position_embeddings"]
    return fields


def rope_huggingface_paths(raw: Mapping[str, Any]) -> dict[str, str]:
    """Where a config.json states the fields that :func:`rope_from_huggingface` returns."""
    name, given = _given(raw)
    fields = given if isinstance(given, Mapping) else {}
    paths = {"rope_parameters": name}
    if "rope_type" not in fields and "type" in fields:
        paths["rope_parameters.rope_type"] = f"{name}.type"
    top = [field for field in _TOP_LEVEL if field not in fields and raw.get(field) is not None]
    if raw.get("original_max_position_embeddings") is not None:
        top.append("original_max_position_embeddings")
    return paths | {f"rope_parameters.{field}": field for field in top}


def rope_from_gguf(info: CheckpointInfo, head_dim: int | None) -> dict[str, Any]:
    """The fields from GGUF metadata and the tensors of frequency factors.

    Args:
        head_dim: size of a head, to tell whether only a part of it is rotated.
    """
    prefix = f"{info.architecture}.rope."
    fields = {field: info.config[prefix + key] for field, key in _GGUF_KEYS.items() if prefix + key in info.config}
    if fields.get("rope_type") == "none":
        fields["rope_type"] = "default"
    if "rope_type" not in fields and prefix + "scale_linear" in info.config:
        fields |= {"rope_type": "linear", "factor": info.config[prefix + "scale_linear"]}
    rotated = info.config.get(prefix + "dimension_count")
    if head_dim and rotated and rotated != head_dim:
        fields["partial_rotary_factor"] = rotated / head_dim
    if prefix + "scaling.attn_factor" in info.config:
        fields["attention_factor"] = _attention_factor(fields, info.config[prefix + "scaling.attn_factor"])
    return fields | _frequency_factors(info)


def _attention_factor(fields: Mapping[str, Any], stated: float) -> float:
    """llama.cpp multiplies the stated factor with YaRN's own, ``1 + 0.1 ln(factor)``."""
    factor = fields.get("factor") or 1.0
    return stated * (1 + 0.1 * math.log(factor)) if fields.get("rope_type") == "yarn" and factor > 1 else stated


def _frequency_factors(info: CheckpointInfo) -> dict[str, Any]:
    if "rope_factors_long.weight" in info and "rope_factors_short.weight" in info:
        factors = {f"{kind}_factor": _values(info, f"rope_factors_{kind}.weight") for kind in ("long", "short")}
        return {"rope_type": "longrope", **factors}
    return {"frequency_factors": _values(info, "rope_freqs.weight")} if "rope_freqs.weight" in info else {}


def _values(info: CheckpointInfo, name: str) -> tuple[float, ...]:
    return tuple(info.weight(name).dequantize().ravel().tolist())


def rope_gguf_paths(architecture: str) -> dict[str, str]:
    """The metadata keys of the fields that :func:`rope_from_gguf` returns."""
    return {"rope_parameters": f"{architecture}.rope"} | {
        f"rope_parameters.{field}": f"{architecture}.rope.{key}" for field, key in _GGUF_KEYS.items()
    }
