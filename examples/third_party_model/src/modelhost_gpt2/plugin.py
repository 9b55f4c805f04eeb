"""What this package declares."""

from __future__ import annotations

from collections.abc import Iterator

from modelhost.api import Architecture, hookimpl

API = (1, 0)


@hookimpl
def modelhost_architectures() -> Iterator[Architecture]:
    yield Architecture("GPT2LMHeadModel", target="modelhost_gpt2.gpt2:GPT2", gguf="gpt2")
