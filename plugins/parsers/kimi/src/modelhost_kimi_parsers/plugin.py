"""What this package declares."""

from __future__ import annotations

from collections.abc import Iterator

from modelhost.api import ReasoningParser, ToolParser, hookimpl

API = (1, 0)

_FORMATS = "modelhost_kimi_parsers.formats"
_ARCHITECTURES = ("DeepseekV3ForCausalLM", "KimiLinearForCausalLM", "KimiK25ForConditionalGeneration")
_K3 = ("KimiK3ForConditionalGeneration",)


@hookimpl
def modelhost_tool_parsers() -> Iterator[ToolParser]:
    yield ToolParser(
        "kimi_k2",
        target=f"{_FORMATS}:kimi_k2",
        architectures=_ARCHITECTURES,
        template=("<|tool_calls_section_begin|>",),
        keep_special_tokens=True,
        models="Kimi K2, K2.5, Kimi Linear",
    )
    yield ToolParser(
        "kimi_k3",
        target=f"{_FORMATS}:kimi_k3",
        architectures=_K3,
        template=("<|open|>", "<|sep|>"),
        keep_special_tokens=True,
        models="Kimi K3",
    )


@hookimpl
def modelhost_reasoning_parsers() -> Iterator[ReasoningParser]:
    yield ReasoningParser(
        "kimi_k2",
        target=f"{_FORMATS}:kimi_k2_reasoning",
        architectures=_ARCHITECTURES,
        template=("<think>", "<|tool_calls_section_begin|>"),
        keep_special_tokens=True,
        models="Kimi K2 Thinking, K2.5",
    )
    yield ReasoningParser(
        "kimi_k3",
        target=f"{_FORMATS}:kimi_k3_reasoning",
        architectures=_K3,
        template=("<|open|>", "<|sep|>"),
        keep_special_tokens=True,
        models="Kimi K3",
    )
