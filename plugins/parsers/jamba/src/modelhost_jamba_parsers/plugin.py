"""What this package declares."""

from __future__ import annotations

from collections.abc import Iterator

from modelhost.api import ToolParser, hookimpl

API = (1, 0)


@hookimpl
def modelhost_tool_parsers() -> Iterator[ToolParser]:
    yield ToolParser(
        "jamba",
        target="modelhost_jamba_parsers.formats:jamba",
        architectures=("JambaForCausalLM",),
        template=("<tool_calls>", "<|bom|>"),
        markers=("<tool_calls>", "</tool_calls>"),
        keep_special_tokens=True,
        models="Jamba 1.5 and later",
    )
