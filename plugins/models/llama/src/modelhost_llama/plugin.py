"""What this package declares."""

from __future__ import annotations

from collections.abc import Iterator

from modelhost.api import Architecture, hookimpl

API = (1, 0)


@hookimpl
def modelhost_architectures() -> Iterator[Architecture]:
    yield Architecture("LlamaForCausalLM", target="modelhost_llama.llama:Llama", gguf="llama")
    yield Architecture("MistralForCausalLM", target="modelhost_llama.llama:Mistral")
