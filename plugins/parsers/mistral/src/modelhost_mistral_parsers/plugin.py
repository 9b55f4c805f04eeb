"""What this package declares."""

from __future__ import annotations

from collections.abc import Iterator

from modelhost.api import ReasoningParser, ToolParser, hookimpl

API = (1, 0)

_FORMATS = "modelhost_mistral_parsers.formats"
_ARCHITECTURES = (
    "MistralForCausalLM",
    "MixtralForCausalLM",
    "Mistral3ForConditionalGeneration",
    "MistralLarge3ForCausalLM",
    "PixtralForConditionalGeneration",
    "VoxtralForConditionalGeneration",
)


@hookimpl
def modelhost_tool_parsers() -> Iterator[ToolParser]:
    yield ToolParser(
        "mistral",
        target=f"{_FORMATS}:mistral",
        architectures=_ARCHITECTURES,
        template=("[TOOL_CALLS]",),
        markers=("[TOOL_CALLS]",),
        keep_special_tokens=True,
        models="Mistral, Mixtral, Ministral, Magistral, Devstral, Pixtral",
    )


@hookimpl
def modelhost_reasoning_parsers() -> Iterator[ReasoningParser]:
    yield ReasoningParser(
        "mistral",
        target=f"{_FORMATS}:mistral_reasoning",
        architectures=_ARCHITECTURES,
        template=("[THINK]", "[/THINK]"),
        markers=("[THINK]", "[/THINK]"),
        keep_special_tokens=True,
        models="Magistral, Ministral 3 Reasoning, Mistral Small 4",
    )
