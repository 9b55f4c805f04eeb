"""What this package declares."""

from __future__ import annotations

from collections.abc import Iterator

from modelhost.api import ReasoningParser, ToolParser, hookimpl

API = (1, 0)

_FORMATS = "modelhost_cohere_parsers.formats"
_COMMAND_3 = ("CohereForCausalLM", "Cohere2ForCausalLM")
_COMMAND_4 = ("Cohere2ForCausalLM", "Cohere2MoeForCausalLM", "Cohere2VisionForConditionalGeneration")
_TEMPLATE_3 = ("<|START_ACTION|>", "<|START_RESPONSE|>")
_TEMPLATE_4 = ("<|START_ACTION|>", "<|START_TEXT|>")
_MODELS_3 = "Command R7B, Command A"
_MODELS_4 = "Command models with `<|START_TEXT|>` blocks"


@hookimpl
def modelhost_tool_parsers() -> Iterator[ToolParser]:
    yield ToolParser(
        "cohere_command3",
        target=f"{_FORMATS}:cohere_command3",
        architectures=_COMMAND_3,
        template=_TEMPLATE_3,
        keep_special_tokens=True,
        models=_MODELS_3,
    )
    yield ToolParser(
        "cohere_command4",
        target=f"{_FORMATS}:cohere_command4",
        architectures=_COMMAND_4,
        template=_TEMPLATE_4,
        keep_special_tokens=True,
        models=_MODELS_4,
    )


@hookimpl
def modelhost_reasoning_parsers() -> Iterator[ReasoningParser]:
    yield ReasoningParser(
        "cohere_command3",
        target=f"{_FORMATS}:cohere_command3_reasoning",
        architectures=_COMMAND_3,
        template=_TEMPLATE_3,
        keep_special_tokens=True,
        models=_MODELS_3,
    )
    yield ReasoningParser(
        "cohere_command4",
        target=f"{_FORMATS}:cohere_command4_reasoning",
        architectures=_COMMAND_4,
        template=_TEMPLATE_4,
        keep_special_tokens=True,
        models=_MODELS_4,
    )
