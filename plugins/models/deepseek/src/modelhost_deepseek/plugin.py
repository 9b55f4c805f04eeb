"""What this package declares."""

from __future__ import annotations

from collections.abc import Iterator

from modelhost.api import Architecture, hookimpl

API = (1, 0)


@hookimpl
def modelhost_architectures() -> Iterator[Architecture]:
    yield Architecture("DeepseekV2ForCausalLM", target="modelhost_deepseek.deepseek:DeepseekV2")
    yield Architecture("DeepseekV3ForCausalLM", target="modelhost_deepseek.deepseek:DeepseekV3", gguf="deepseek2")
    yield Architecture("DeepseekV32ForCausalLM", target="modelhost_deepseek.deepseek:DeepseekV32")
    yield Architecture("DeepseekV4ForCausalLM", target="modelhost_deepseek.deepseek_v4:DeepseekV4")
