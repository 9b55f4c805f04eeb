"""What this package declares."""

from __future__ import annotations

from collections.abc import Iterator

from modelhost.api import ToolParser, hookimpl

API = (1, 0)

_FORMATS = "modelhost_lfm_parsers.formats"


@hookimpl
def modelhost_tool_parsers() -> Iterator[ToolParser]:
    yield ToolParser(
        "lfm2",
        target=f"{_FORMATS}:lfm2",
        architectures=("Lfm2ForCausalLM", "Lfm2MoeForCausalLM", "Lfm2VlForConditionalGeneration"),
        template=("List of tools: ",),
        markers=("<|tool_call_start|>", "<|tool_call_end|>"),
        keep_special_tokens=True,
        models="LFM2, LFM2.5",
    )
