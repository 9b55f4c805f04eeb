"""What this package declares."""

from __future__ import annotations

from collections.abc import Iterator

from modelhost.api import ReasoningParser, hookimpl

API = (1, 0)

_FORMATS = "modelhost_holo_parsers.formats"


@hookimpl
def modelhost_reasoning_parsers() -> Iterator[ReasoningParser]:
    yield ReasoningParser(
        "holo2",
        target=f"{_FORMATS}:holo2",
        architectures=("Qwen3VLForConditionalGeneration", "Qwen3VLMoeForConditionalGeneration"),
        template=("<think>", "thinking"),
        markers=("<think>", "</think>"),
        models="Holo2",
    )
