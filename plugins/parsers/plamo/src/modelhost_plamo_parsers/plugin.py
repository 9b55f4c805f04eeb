"""What this package declares."""

from __future__ import annotations

from collections.abc import Iterator

from modelhost.api import ReasoningParser, ToolParser, hookimpl

API = (1, 0)

_FORMATS = "modelhost_plamo_parsers.formats"


@hookimpl
def modelhost_tool_parsers() -> Iterator[ToolParser]:
    yield ToolParser(
        "plamo3",
        target=f"{_FORMATS}:plamo3",
        architectures=("Plamo3ForCausalLM",),
        template=("plamo:", "begin_tool_request"),
        keep_special_tokens=True,
        models="PLaMo 3",
    )


@hookimpl
def modelhost_reasoning_parsers() -> Iterator[ReasoningParser]:
    yield ReasoningParser(
        "plamo3",
        target=f"{_FORMATS}:plamo3_reasoning",
        architectures=("Plamo3ForCausalLM",),
        template=("plamo:", "begin_think"),
        keep_special_tokens=True,
        models="PLaMo 3",
    )
