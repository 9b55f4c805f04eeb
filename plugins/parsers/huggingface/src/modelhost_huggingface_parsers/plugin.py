"""What this package declares."""

from __future__ import annotations

from collections.abc import Iterator

from modelhost.api import ReasoningParser, ToolParser, hookimpl

API = (1, 0)

_FORMATS = "modelhost_huggingface_parsers.formats"


@hookimpl
def modelhost_tool_parsers() -> Iterator[ToolParser]:
    yield ToolParser(
        "beam",
        target=f"{_FORMATS}:response_template",
        architectures=("BeamForCausalLM",),
        keep_special_tokens=True,
        models="Beam",
    )
    yield ToolParser(
        "hf",
        target=f"{_FORMATS}:response_template",
        keep_special_tokens=True,
        models="any with a response template, chosen by name",
    )


@hookimpl
def modelhost_reasoning_parsers() -> Iterator[ReasoningParser]:
    yield ReasoningParser(
        "beam",
        target=f"{_FORMATS}:response_template_reasoning",
        architectures=("BeamForCausalLM",),
        keep_special_tokens=True,
        models="Beam",
    )
    yield ReasoningParser(
        "hf",
        target=f"{_FORMATS}:response_template_reasoning",
        keep_special_tokens=True,
        models="any with a response template, chosen by name",
    )
