"""What this package declares."""

from __future__ import annotations

from collections.abc import Iterator

from modelhost.api import ToolParser, hookimpl

API = (1, 0)


@hookimpl
def modelhost_tool_parsers() -> Iterator[ToolParser]:
    yield ToolParser(
        "xlam",
        target="modelhost_xlam_parsers.formats:xlam",
        architectures=("LlamaForCausalLM", "Qwen2ForCausalLM"),
        template=('[{"name": "tool_call_name", "arguments": ',),
        models="xLAM-2",
    )
