"""What this package declares."""

from __future__ import annotations

from collections.abc import Iterator

from modelhost.api import ToolParser, hookimpl

API = (1, 0)


@hookimpl
def modelhost_tool_parsers() -> Iterator[ToolParser]:
    yield ToolParser(
        "gigachat3",
        target="modelhost_gigachat_parsers.formats:gigachat3",
        architectures=("DeepseekV3ForCausalLM",),
        template=("<|message_sep|>", "<|role_sep|>"),
        keep_special_tokens=True,
        models="GigaChat 3, 3.1",
    )
