"""What this package declares."""

from __future__ import annotations

from collections.abc import Iterator

from modelhost.api import ReasoningParser, hookimpl

API = (1, 0)

_FORMATS = "modelhost_nemotron_parsers.formats"


@hookimpl
def modelhost_reasoning_parsers() -> Iterator[ReasoningParser]:
    yield ReasoningParser(
        "nemotron_v3",
        target=f"{_FORMATS}:nemotron_v3",
        architectures=("NemotronHForCausalLM",),
        template=("<think>", "enable_thinking"),
        markers=("<think>", "</think>"),
        keep_special_tokens=True,
        models="Nemotron 3",
    )
