"""What this package declares."""

from __future__ import annotations

from collections.abc import Iterator

from modelhost.api import ToolParser, hookimpl

API = (1, 0)


@hookimpl
def modelhost_tool_parsers() -> Iterator[ToolParser]:
    yield ToolParser(
        "apertus",
        target="modelhost_apertus_parsers.formats:apertus",
        architectures=("ApertusForCausalLM",),
        template=("<|tools_prefix|>", "<|tools_suffix|>"),
        keep_special_tokens=True,
        models="Apertus",
    )
