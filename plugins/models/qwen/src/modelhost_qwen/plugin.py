"""What this package declares."""

from __future__ import annotations

from collections.abc import Iterator

from modelhost.api import Architecture, hookimpl

API = (1, 0)


@hookimpl
def modelhost_architectures() -> Iterator[Architecture]:
    yield Architecture("Qwen2ForCausalLM", target="modelhost_qwen.qwen2:Qwen2", gguf="qwen2")
    yield Architecture("Qwen3ForCausalLM", target="modelhost_qwen.qwen3:Qwen3", gguf="qwen3")
    yield Architecture("Qwen3MoeForCausalLM", target="modelhost_qwen.qwen3_moe:Qwen3Moe", gguf="qwen3moe")
    yield Architecture("Qwen3_5ForConditionalGeneration", target="modelhost_qwen.qwen3_5:Qwen35", gguf="qwen35")
    yield Architecture(
        "Qwen3_5MoeForConditionalGeneration", target="modelhost_qwen.qwen3_5_moe:Qwen35Moe", gguf="qwen35moe"
    )
