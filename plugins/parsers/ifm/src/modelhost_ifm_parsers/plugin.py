"""What this package declares."""

from __future__ import annotations

from collections.abc import Iterator

from modelhost.api import ReasoningParser, ToolParser, hookimpl

API = (1, 0)

_FORMATS = "modelhost_ifm_parsers.formats"


@hookimpl
def modelhost_tool_parsers() -> Iterator[ToolParser]:
    yield ToolParser(
        "k2_horizon",
        target=f"{_FORMATS}:k2_horizon",
        architectures=("K2HorizonForCausalLM",),
        template=("<ifm|tool_call>",),
        keep_special_tokens=True,
        models="K2 Horizon",
    )


@hookimpl
def modelhost_reasoning_parsers() -> Iterator[ReasoningParser]:
    yield ReasoningParser(
        "k2_horizon",
        target=f"{_FORMATS}:k2_horizon_reasoning",
        architectures=("K2HorizonForCausalLM",),
        template=("<ifm|think",),
        keep_special_tokens=True,
        models="K2 Horizon",
    )
