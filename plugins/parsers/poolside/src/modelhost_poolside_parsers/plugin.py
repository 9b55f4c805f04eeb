"""What this package declares."""

from __future__ import annotations

from collections.abc import Iterator

from modelhost.api import ReasoningParser, ToolParser, hookimpl

API = (1, 0)

_FORMATS = "modelhost_poolside_parsers.formats"
_ARCHITECTURES = ("LagunaForCausalLM",)


@hookimpl
def modelhost_tool_parsers() -> Iterator[ToolParser]:
    yield ToolParser(
        "poolside_v1",
        target=f"{_FORMATS}:poolside_v1",
        architectures=_ARCHITECTURES,
        template=("<assistant>", "<arg_key>"),
        keep_special_tokens=True,
        models="Laguna",
    )


@hookimpl
def modelhost_reasoning_parsers() -> Iterator[ReasoningParser]:
    yield ReasoningParser(
        "poolside_v1",
        target=f"{_FORMATS}:poolside_v1_reasoning",
        architectures=_ARCHITECTURES,
        template=("<assistant>", "<think>"),
        markers=("<think>", "</think>", "<assistant>"),
        models="Laguna",
    )
