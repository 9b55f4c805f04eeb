"""What this package declares."""

from __future__ import annotations

from collections.abc import Iterator

from modelhost.api import ReasoningParser, ToolParser, hookimpl

API = (1, 0)

_FORMATS = "modelhost_step_parsers.formats"
_STEP3 = ("Step3VLForConditionalGeneration", "Step3TextForCausalLM")
_STEP3P5 = ("Step3p5ForCausalLM", "Step3p7ForConditionalGeneration")


@hookimpl
def modelhost_tool_parsers() -> Iterator[ToolParser]:
    yield ToolParser(
        "step3",
        target=f"{_FORMATS}:step3",
        architectures=_STEP3,
        template=("<steptml:invoke",),
        keep_special_tokens=True,
        models="Step3",
    )
    yield ToolParser(
        "step3p5",
        target=f"{_FORMATS}:step3p5",
        architectures=_STEP3P5,
        template=("<function=", "<parameter="),
        models="Step-3.5",
    )
    yield ToolParser(
        "step5",
        target=f"{_FORMATS}:step5",
        models="Step 5",
    )


@hookimpl
def modelhost_reasoning_parsers() -> Iterator[ReasoningParser]:
    yield ReasoningParser(
        "step3",
        target=f"{_FORMATS}:step3_reasoning",
        architectures=_STEP3,
        template=("<think>", "<steptml:invoke"),
        markers=("</think>",),
        models="Step3",
    )
    yield ReasoningParser(
        "step3p5",
        target=f"{_FORMATS}:step3p5_reasoning",
        architectures=_STEP3P5,
        template=("<think>", "<function="),
        markers=("<think>", "</think>"),
        models="Step-3.5",
    )
    yield ReasoningParser(
        "step5",
        target=f"{_FORMATS}:step5_reasoning",
        markers=("<think>", "</think>"),
        models="Step 5",
    )
