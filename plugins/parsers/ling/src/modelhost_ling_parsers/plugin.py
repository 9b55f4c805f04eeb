"""What this package declares."""

from __future__ import annotations

from collections.abc import Iterator

from modelhost.api import ReasoningParser, ToolParser, hookimpl

API = (1, 0)

_FORMATS = "modelhost_ling_parsers.formats"
_ARCHITECTURES = ("BailingMoeV3ForCausalLM", "BailingMoeV3VLForConditionalGeneration")


@hookimpl
def modelhost_tool_parsers() -> Iterator[ToolParser]:
    yield ToolParser(
        "ling3",
        target=f"{_FORMATS}:ling3",
        architectures=_ARCHITECTURES,
        keep_special_tokens=True,
        models="Ling 3",
    )


@hookimpl
def modelhost_reasoning_parsers() -> Iterator[ReasoningParser]:
    yield ReasoningParser(
        "ling3",
        target=f"{_FORMATS}:ling3_reasoning",
        architectures=_ARCHITECTURES,
        keep_special_tokens=True,
        models="Ling 3",
    )
