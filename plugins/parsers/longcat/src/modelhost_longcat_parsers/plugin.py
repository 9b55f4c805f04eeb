"""What this package declares."""

from __future__ import annotations

from collections.abc import Iterator

from modelhost.api import ToolParser, hookimpl

API = (1, 0)


@hookimpl
def modelhost_tool_parsers() -> Iterator[ToolParser]:
    yield ToolParser(
        "longcat",
        target="modelhost_longcat_parsers.formats:longcat",
        architectures=("LongcatFlashForCausalLM",),
        template=("<longcat_tool_call>",),
        keep_special_tokens=True,
        models="LongCat-Flash",
    )
