"""What this package declares."""

from __future__ import annotations

from collections.abc import Iterator

from modelhost.api import ReasoningParser, ToolParser, hookimpl

API = (1, 0)

_FORMATS = "modelhost_ernie_parsers.formats"
_ARCHITECTURES = ("Ernie4_5_MoeForCausalLM", "Ernie4_5_VLMoeForConditionalGeneration")


@hookimpl
def modelhost_tool_parsers() -> Iterator[ToolParser]:
    yield ToolParser(
        "ernie45",
        target=f"{_FORMATS}:ernie45",
        architectures=_ARCHITECTURES,
        template=("<tool_call>", "<response>"),
        keep_special_tokens=True,
        models="ERNIE 4.5 Thinking",
    )


@hookimpl
def modelhost_reasoning_parsers() -> Iterator[ReasoningParser]:
    yield ReasoningParser(
        "ernie45",
        target=f"{_FORMATS}:ernie45_reasoning",
        architectures=_ARCHITECTURES,
        template=("<think>", "<response>"),
        markers=("<think>", "</think>"),
        keep_special_tokens=True,
        models="ERNIE 4.5 Thinking",
    )
