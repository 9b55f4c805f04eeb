"""What this package declares."""

from __future__ import annotations

from collections.abc import Iterator

from modelhost.api import ReasoningParser, ToolParser, hookimpl

API = (1, 0)

_FORMATS = "modelhost_gemma_parsers.formats"
_ARCHITECTURES = ("Gemma4ForCausalLM", "Gemma4ForConditionalGeneration", "Gemma4UnifiedForConditionalGeneration")


@hookimpl
def modelhost_tool_parsers() -> Iterator[ToolParser]:
    yield ToolParser(
        "functiongemma",
        target=f"{_FORMATS}:functiongemma",
        architectures=("Gemma3ForCausalLM",),
        template=("<start_function_call>", "<escape>"),
        keep_special_tokens=True,
        models="FunctionGemma",
    )
    yield ToolParser(
        "gemma4",
        target=f"{_FORMATS}:gemma4",
        architectures=_ARCHITECTURES,
        template=("<|tool_call>",),
        keep_special_tokens=True,
        models="Gemma 4",
    )


@hookimpl
def modelhost_reasoning_parsers() -> Iterator[ReasoningParser]:
    yield ReasoningParser(
        "gemma4",
        target=f"{_FORMATS}:gemma4_reasoning",
        architectures=_ARCHITECTURES,
        template=("<|channel>",),
        markers=("<|channel>", "<channel|>"),
        keep_special_tokens=True,
        models="Gemma 4",
    )
