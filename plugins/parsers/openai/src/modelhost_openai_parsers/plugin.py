"""What this package declares."""

from __future__ import annotations

from collections.abc import Iterator

from modelhost.api import ReasoningParser, ToolParser, hookimpl

API = (1, 0)

_MARKERS = ("<|channel|>", "<|message|>", "<|end|>")


@hookimpl
def modelhost_tool_parsers() -> Iterator[ToolParser]:
    yield ToolParser(
        "openai",
        target="modelhost_openai_parsers.formats:harmony",
        architectures=("GptOssForCausalLM",),
        template=("<|channel|>", "commentary to=functions."),
        markers=_MARKERS,
        keep_special_tokens=True,
        models="gpt-oss",
    )


@hookimpl
def modelhost_reasoning_parsers() -> Iterator[ReasoningParser]:
    yield ReasoningParser(
        "openai_gptoss",
        target="modelhost_openai_parsers.formats:harmony",
        architectures=("GptOssForCausalLM",),
        template=("<|channel|>", "analysis"),
        markers=_MARKERS,
        keep_special_tokens=True,
        models="gpt-oss",
    )
