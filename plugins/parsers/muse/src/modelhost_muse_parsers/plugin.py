"""What this package declares."""

from __future__ import annotations

from collections.abc import Iterator

from modelhost.api import ReasoningParser, ToolParser, hookimpl

API = (1, 0)

_FORMATS = "modelhost_muse_parsers.formats"
_ARCHITECTURES = ("MuseGlimmerForCausalLM", "MuseGlimmerForConditionalGeneration", "MuseSparkForConditionalGeneration")


@hookimpl
def modelhost_tool_parsers() -> Iterator[ToolParser]:
    for name in ("muse", "muse_glimmer", "musespark1x"):
        yield ToolParser(
            name,
            target=f"{_FORMATS}:muse",
            architectures=_ARCHITECTURES,
            template=("<atem:function_calls>",),
            keep_special_tokens=True,
            models="Muse Glimmer, Muse Spark",
        )


@hookimpl
def modelhost_reasoning_parsers() -> Iterator[ReasoningParser]:
    for name in ("muse", "muse_glimmer", "musespark1x"):
        yield ReasoningParser(
            name,
            target=f"{_FORMATS}:muse_reasoning",
            architectures=_ARCHITECTURES,
            template=("<|message|>", "to=self"),
            keep_special_tokens=True,
            models="Muse Glimmer, Muse Spark",
        )
