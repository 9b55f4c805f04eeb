"""What this package declares."""

from __future__ import annotations

from collections.abc import Iterator

from modelhost.api import Architecture, hookimpl

API = (1, 0)


@hookimpl
def modelhost_architectures() -> Iterator[Architecture]:
    yield Architecture("GemmaForCausalLM", target="modelhost_gemma.gemma:Gemma", gguf="gemma")
    yield Architecture("Gemma2ForCausalLM", target="modelhost_gemma.gemma2:Gemma2", gguf="gemma2")
    yield Architecture("Gemma3ForCausalLM", target="modelhost_gemma.gemma3:Gemma3", gguf="gemma3")
