"""What this package declares."""

from __future__ import annotations

from collections.abc import Iterator

from modelhost.api import ReasoningParser, ToolParser, hookimpl

API = (1, 0)

_FORMATS = "modelhost_glm_parsers.formats"
_GLM45 = ("Glm4MoeForCausalLM", "Glm4vMoeForConditionalGeneration")
_GLM47 = ("Glm4MoeForCausalLM", "Glm4MoeLiteForCausalLM", "GlmMoeDsaForCausalLM")


@hookimpl
def modelhost_tool_parsers() -> Iterator[ToolParser]:
    yield ToolParser(
        "glm45",
        target=f"{_FORMATS}:glm",
        architectures=_GLM45,
        template=("<arg_key>", "{function-name}\n<arg_key>"),
        keep_special_tokens=True,
        models="GLM-4.5, GLM-4.6",
    )
    yield ToolParser(
        "glm47",
        target=f"{_FORMATS}:glm",
        architectures=_GLM47,
        template=("{function-name}<arg_key>",),
        keep_special_tokens=True,
        models="GLM-4.7, GLM-5",
    )


@hookimpl
def modelhost_reasoning_parsers() -> Iterator[ReasoningParser]:
    yield ReasoningParser(
        "glm45",
        target=f"{_FORMATS}:glm_reasoning",
        architectures=_GLM45,
        template=("<think>", "{function-name}\n<arg_key>"),
        markers=("<think>", "</think>"),
        keep_special_tokens=True,
        models="GLM-4.5, GLM-4.6",
    )
    yield ReasoningParser(
        "glm47",
        target=f"{_FORMATS}:glm_reasoning",
        architectures=_GLM47,
        template=("<think>", "{function-name}<arg_key>"),
        markers=("<think>", "</think>"),
        keep_special_tokens=True,
        models="GLM-4.7, GLM-5",
    )
