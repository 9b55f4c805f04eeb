"""What this package declares."""

from __future__ import annotations

from collections.abc import Iterator

from modelhost.api import ReasoningParser, ToolParser, hookimpl

API = (1, 0)

_FORMATS = "modelhost_minimax_parsers.formats"
_M2 = ("MiniMaxM2ForCausalLM",)
_M3 = ("MiniMaxM3VLForCausalLM", "MiniMaxM3SparseForConditionalGeneration")


@hookimpl
def modelhost_tool_parsers() -> Iterator[ToolParser]:
    yield ToolParser(
        "minimax_m2",
        target=f"{_FORMATS}:minimax_m2",
        architectures=_M2,
        template=("<minimax:tool_call>",),
        keep_special_tokens=True,
        models="MiniMax M2, M2.1, M2.5",
    )
    yield ToolParser(
        "minimax_m3",
        target=f"{_FORMATS}:minimax_m3",
        architectures=_M3,
        template=("]<]minimax[>[",),
        keep_special_tokens=True,
        models="MiniMax M3",
    )


@hookimpl
def modelhost_reasoning_parsers() -> Iterator[ReasoningParser]:
    yield ReasoningParser(
        "minimax_m2",
        target=f"{_FORMATS}:minimax_m2_reasoning",
        architectures=_M2,
        template=("<think>", "<minimax:tool_call>"),
        markers=("<think>", "</think>"),
        keep_special_tokens=True,
        models="MiniMax M2, M2.1, M2.5",
    )
    yield ReasoningParser(
        "minimax_m2_append_think",
        target=f"{_FORMATS}:minimax_m2_append_think",
        models="MiniMax M2, where a client wants the reasoning in the answer",
    )
    yield ReasoningParser(
        "minimax_m3",
        target=f"{_FORMATS}:minimax_m3_reasoning",
        architectures=_M3,
        template=("<mm:think>",),
        keep_special_tokens=True,
        models="MiniMax M3",
    )
