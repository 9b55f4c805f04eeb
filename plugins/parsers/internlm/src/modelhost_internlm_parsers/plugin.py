"""What this package declares."""

from __future__ import annotations

from collections.abc import Iterator

from modelhost.api import ToolParser, hookimpl

API = (1, 0)


@hookimpl
def modelhost_tool_parsers() -> Iterator[ToolParser]:
    yield ToolParser(
        "internlm",
        target="modelhost_internlm_parsers.formats:internlm",
        architectures=("InternLM2ForCausalLM",),
        template=("<|action_start|>", "<|plugin|>"),
        keep_special_tokens=True,
        models="InternLM2, InternLM2.5",
    )
