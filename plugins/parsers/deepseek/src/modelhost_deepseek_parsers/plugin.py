"""What this package declares."""

from __future__ import annotations

from collections.abc import Iterator

from modelhost.api import ReasoningParser, ToolParser, hookimpl

API = (1, 0)

_FORMATS = "modelhost_deepseek_parsers.formats"


@hookimpl
def modelhost_tool_parsers() -> Iterator[ToolParser]:
    yield ToolParser(
        "deepseek_v3",
        target=f"{_FORMATS}:deepseek_v3",
        architectures=("DeepseekV3ForCausalLM",),
        template=("<｜tool▁sep｜>", "```json"),
        markers=("<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"),
        models="DeepSeek V3, V3-0324, R1",
    )
    yield ToolParser(
        "deepseek_v31",
        target=f"{_FORMATS}:deepseek_v31",
        architectures=("DeepseekV3ForCausalLM",),
        template=("<｜tool▁sep｜>", "thinking"),
        markers=("<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"),
        models="DeepSeek V3.1",
    )
    yield ToolParser(
        "deepseek_v32",
        target=f"{_FORMATS}:deepseek_v32",
        architectures=("DeepseekV32ForCausalLM",),
        template=("｜DSML｜", "function_calls"),
        keep_special_tokens=True,
        models="DeepSeek V3.2",
    )
    yield ToolParser(
        "deepseek_v4",
        target=f"{_FORMATS}:deepseek_v4",
        architectures=("DeepseekV4ForCausalLM",),
        template=("｜DSML｜", "tool_calls"),
        keep_special_tokens=True,
        models="DeepSeek V4",
    )
    yield ToolParser(
        "deepseek_v41",
        target=f"{_FORMATS}:deepseek_v41",
        architectures=("DeepseekV41ForCausalLM",),
        template=("｜DSML｜", "｜DSML｜ calls"),
        keep_special_tokens=True,
        models="DeepSeek V4.1",
    )


@hookimpl
def modelhost_reasoning_parsers() -> Iterator[ReasoningParser]:
    yield ReasoningParser(
        "deepseek_r1",
        target=f"{_FORMATS}:deepseek_r1_reasoning",
        template=("<think>\\n", "｜Assistant｜"),
        markers=("<think>", "</think>"),
        models="DeepSeek R1 and its distillations",
    )
    yield ReasoningParser(
        "deepseek_v3",
        target=f"{_FORMATS}:deepseek_v3_reasoning",
        architectures=("DeepseekV3ForCausalLM", "DeepseekV32ForCausalLM"),
        template=("</think>", "thinking"),
        markers=("<think>", "</think>"),
        models="DeepSeek V3.1, V3.2",
    )
    yield ReasoningParser(
        "deepseek_v4",
        target=f"{_FORMATS}:deepseek_v4_reasoning",
        architectures=("DeepseekV4ForCausalLM",),
        template=("</think>", "｜DSML｜"),
        markers=("<think>", "</think>"),
        keep_special_tokens=True,
        models="DeepSeek V4",
    )
    yield ReasoningParser(
        "deepseek_v41",
        target=f"{_FORMATS}:deepseek_v41_reasoning",
        architectures=("DeepseekV41ForCausalLM",),
        template=("</think>", "｜DSML｜ calls"),
        markers=("<think>", "</think>"),
        keep_special_tokens=True,
        models="DeepSeek V4.1",
    )
