"""What this package declares."""

from __future__ import annotations

from collections.abc import Iterator

from modelhost.api import ReasoningParser, ToolParser, hookimpl

API = (1, 0)

_ARCHITECTURES = ("MiMoForCausalLM", "MiMoV2FlashForCausalLM")


@hookimpl
def modelhost_tool_parsers() -> Iterator[ToolParser]:
    yield ToolParser(
        "mimo",
        target="modelhost_mimo_parsers.formats:mimo",
        architectures=_ARCHITECTURES,
        template=("<function=", "<parameter="),
        keep_special_tokens=True,
        models="MiMo",
    )


@hookimpl
def modelhost_reasoning_parsers() -> Iterator[ReasoningParser]:
    yield ReasoningParser(
        "mimo",
        target="modelhost_mimo_parsers.formats:mimo_reasoning",
        architectures=_ARCHITECTURES,
        template=("<think>", "enable_thinking"),
        markers=("<think>", "</think>"),
        keep_special_tokens=True,
        models="MiMo",
    )
