"""What this package declares."""

from __future__ import annotations

from collections.abc import Iterator

from modelhost.api import ReasoningParser, ToolParser, hookimpl

API = (1, 0)

_FORMATS = "modelhost_inkling_parsers.formats"
_ARCHITECTURES = ("InklingForConditionalGeneration", "InklingForCausalLM")


@hookimpl
def modelhost_tool_parsers() -> Iterator[ToolParser]:
    yield ToolParser(
        "inkling",
        target=f"{_FORMATS}:inkling",
        architectures=_ARCHITECTURES,
        template=("<|content_invoke_tool_json|>",),
        keep_special_tokens=True,
        models="Inkling",
    )


@hookimpl
def modelhost_reasoning_parsers() -> Iterator[ReasoningParser]:
    yield ReasoningParser(
        "inkling",
        target=f"{_FORMATS}:inkling_reasoning",
        architectures=_ARCHITECTURES,
        template=("<|content_thinking|>",),
        keep_special_tokens=True,
        models="Inkling",
    )
