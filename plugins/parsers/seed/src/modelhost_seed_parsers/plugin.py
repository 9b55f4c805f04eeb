"""What this package declares."""

from __future__ import annotations

from collections.abc import Iterator

from modelhost.api import ReasoningParser, ToolParser, hookimpl

API = (1, 0)

_FORMATS = "modelhost_seed_parsers.formats"
_ARCHITECTURES = ("SeedOssForCausalLM",)


@hookimpl
def modelhost_tool_parsers() -> Iterator[ToolParser]:
    yield ToolParser(
        "seed_oss",
        target=f"{_FORMATS}:seed_oss",
        architectures=_ARCHITECTURES,
        template=("<seed:tool_call>", "<function="),
        keep_special_tokens=True,
        models="Seed-OSS",
    )


@hookimpl
def modelhost_reasoning_parsers() -> Iterator[ReasoningParser]:
    yield ReasoningParser(
        "seed_oss",
        target=f"{_FORMATS}:seed_oss_reasoning",
        architectures=_ARCHITECTURES,
        template=("<seed:think>",),
        markers=("<seed:think>", "</seed:think>"),
        keep_special_tokens=True,
        models="Seed-OSS",
    )
