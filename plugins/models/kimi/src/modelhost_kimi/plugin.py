"""What this package declares."""

from __future__ import annotations

from collections.abc import Iterator

from modelhost.api import Architecture, hookimpl

API = (1, 0)


@hookimpl
def modelhost_architectures() -> Iterator[Architecture]:
    yield Architecture("KimiLinearForCausalLM", target="modelhost_kimi.kimi_linear:KimiLinear", gguf="kimi-linear")
