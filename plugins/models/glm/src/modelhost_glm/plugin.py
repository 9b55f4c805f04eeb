"""What this package declares."""

from __future__ import annotations

from collections.abc import Iterator

from modelhost.api import Architecture, hookimpl

API = (1, 0)


@hookimpl
def modelhost_architectures() -> Iterator[Architecture]:
    yield Architecture("Glm4ForCausalLM", target="modelhost_glm.glm4:Glm4", gguf="glm4")
    yield Architecture("Glm4MoeLiteForCausalLM", target="modelhost_glm.glm_moe:Glm4MoeLite")
    yield Architecture("GlmMoeDsaForCausalLM", target="modelhost_glm.glm_moe:GlmMoeDsa", gguf="glm-dsa")
