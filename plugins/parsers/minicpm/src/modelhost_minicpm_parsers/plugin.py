"""What this package declares."""

from __future__ import annotations

from collections.abc import Iterator

from modelhost.api import ReasoningParser, ToolParser, hookimpl

API = (1, 0)

_FORMATS = "modelhost_minicpm_parsers.formats"


@hookimpl
def modelhost_tool_parsers() -> Iterator[ToolParser]:
    yield ToolParser(
        "minicpm5",
        target=f"{_FORMATS}:minicpm5",
        architectures=("LlamaForCausalLM", "MiniCPMForCausalLM"),
        template=("<function name=", "<param name="),
        keep_special_tokens=True,
        models="MiniCPM5",
    )


@hookimpl
def modelhost_reasoning_parsers() -> Iterator[ReasoningParser]:
    yield ReasoningParser(
        "minicpmv",
        target=f"{_FORMATS}:minicpmv_reasoning",
        architectures=("MiniCPMV4_6ForConditionalGeneration", "MiniCPMV4_7ForConditionalGeneration"),
        template=("<think>", "enable_thinking"),
        markers=("<think>", "</think>"),
        keep_special_tokens=True,
        models="MiniCPM-V 4.6, 4.7",
    )
