"""What this package declares."""

from __future__ import annotations

from collections.abc import Iterator

from modelhost.api import ReasoningParser, ToolParser, hookimpl

API = (1, 0)

_FORMATS = "modelhost_qwen_parsers.formats"


@hookimpl
def modelhost_tool_parsers() -> Iterator[ToolParser]:
    for name in ("hermes", "qwen3_json"):
        yield ToolParser(
            name,
            target=f"{_FORMATS}:hermes",
            architectures=("Qwen2ForCausalLM", "Qwen2MoeForCausalLM", "Qwen3ForCausalLM", "Qwen3MoeForCausalLM"),
            template=("<tool_call>", "<args-json-object>"),
            keep_special_tokens=True,
            models="Hermes 2 Pro and 3, Qwen2.5, Qwen3, QwQ",
        )
    for name in ("qwen3_coder", "qwen3_xml"):
        yield ToolParser(
            name,
            target=f"{_FORMATS}:qwen3_coder",
            architectures=(
                "Qwen3MoeForCausalLM",
                "Qwen3NextForCausalLM",
                "Qwen3_5ForConditionalGeneration",
                "Qwen3_5MoeForConditionalGeneration",
            ),
            template=("<function=", "<parameter="),
            keep_special_tokens=True,
            models="Qwen3-Coder, Qwen3.5",
        )


@hookimpl
def modelhost_reasoning_parsers() -> Iterator[ReasoningParser]:
    yield ReasoningParser(
        "qwen3",
        target=f"{_FORMATS}:qwen3",
        architectures=(
            "Qwen3ForCausalLM",
            "Qwen3MoeForCausalLM",
            "Qwen3NextForCausalLM",
            "Qwen3_5ForConditionalGeneration",
            "Qwen3_5MoeForConditionalGeneration",
        ),
        template=("<think>", "enable_thinking"),
        markers=("<think>", "</think>"),
        keep_special_tokens=True,
        models="Qwen3, Qwen3.5",
    )
