"""What this package declares."""

from __future__ import annotations

from collections.abc import Iterator

from modelhost.api import ToolParser, hookimpl

API = (1, 0)

_FORMATS = "modelhost_dots_parsers.formats"


@hookimpl
def modelhost_tool_parsers() -> Iterator[ToolParser]:
    yield ToolParser(
        "dots",
        target=f"{_FORMATS}:dots",
        architectures=("Dots1ForCausalLM", "Dots3NoteForCausalLM"),
        template=("<dots_function_call>",),
        keep_special_tokens=True,
        models="dots.llm1, dots3",
    )
