"""What this package declares."""

from __future__ import annotations

from collections.abc import Iterator

from modelhost.api import ReasoningParser, ToolParser, hookimpl

API = (1, 0)

_FORMATS = "modelhost_granite_parsers.formats"


@hookimpl
def modelhost_tool_parsers() -> Iterator[ToolParser]:
    yield ToolParser(
        "granite",
        target=f"{_FORMATS}:granite",
        architectures=("GraniteForCausalLM", "GraniteMoeForCausalLM"),
        template=("<|start_of_role|>", "<|tool_call|>"),
        keep_special_tokens=True,
        models="Granite 3.0 to 3.3",
    )
    yield ToolParser(
        "granite4",
        target=f"{_FORMATS}:granite4",
        architectures=("GraniteForCausalLM", "GraniteMoeHybridForCausalLM"),
        template=("<|start_of_role|>", "<tool_call>"),
        keep_special_tokens=True,
        models="Granite 4",
    )
    yield ToolParser(
        "granite-20b-fc",
        target=f"{_FORMATS}:granite_20b_fc",
        architectures=("GPTBigCodeForCausalLM",),
        template=("<function_call>",),
        keep_special_tokens=True,
        models="Granite 20B FunctionCalling",
    )


@hookimpl
def modelhost_reasoning_parsers() -> Iterator[ReasoningParser]:
    yield ReasoningParser(
        "granite",
        target=f"{_FORMATS}:granite_reasoning",
        architectures=("GraniteForCausalLM",),
        template=("Here is my thought process:", "Here is my response:"),
        models="Granite 3.2",
    )
    yield ReasoningParser(
        "granite_thinking_parser",
        target=f"{_FORMATS}:granite_thinking",
        architectures=("GraniteForCausalLM", "GraniteMoeHybridForCausalLM", "GraniteSWAForCausalLM"),
        template=("<think>", "</think>"),
        keep_special_tokens=True,
        models="Granite 4.2",
    )
