"""The configuration that Qwen2 and Qwen3 share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from modelhost.api.model import LayerType, MixedAttentionConfig

DEFAULT_WINDOW = 4096


class QwenConfig(MixedAttentionConfig):
    """Without ``layer_types``, the layers from ``max_window_layers`` on have a window, if windows are used at all.

    Source: transformers ``models/qwen2/configuration_qwen2.py``.
    """

    use_sliding_window: bool = False
    max_window_layers: int = 28

    @classmethod
    def huggingface_fields(cls, raw: Mapping[str, Any]) -> dict[str, Any]:
        window = raw.get("sliding_window", DEFAULT_WINDOW) if raw.get("use_sliding_window") else None
        return {**super().huggingface_fields(raw), "sliding_window": window}

    @classmethod
    def gguf_values(cls, info: Any) -> dict[str, Any]:
        return {**super().gguf_values(info), "sliding_window": None}

    def derived_layer_type(self, layer: int) -> LayerType:
        return "sliding_attention" if layer >= self.max_window_layers else "full_attention"
