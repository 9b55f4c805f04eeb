"""What this package declares."""

from __future__ import annotations

from collections.abc import Iterator

from modelhost.api import ReasoningParser, ToolParser, hookimpl

API = (1, 0)

_FORMATS = "modelhost_olmo_parsers.formats"
_ARCHITECTURES = ("Olmo3ForCausalLM",)


@hookimpl
def modelhost_tool_parsers() -> Iterator[ToolParser]:
    yield ToolParser(
        "olmo3",
        target=f"{_FORMATS}:olmo3",
        architectures=_ARCHITECTURES,
        template=("<function_calls>",),
        models="OLMo 3",
    )


@hookimpl
def modelhost_reasoning_parsers() -> Iterator[ReasoningParser]:
    yield ReasoningParser(
        "olmo3",
        target=f"{_FORMATS}:olmo3_reasoning",
        architectures=_ARCHITECTURES,
        template=("<think>",),
        models="OLMo 3 Think",
    )
