"""The format of the reasoning of Nemotron models."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from modelhost.api.parsing import AnswerFromReasoning, Parser, ParserContext, ReasoningTags


def thinking_disabled(options: Mapping[str, Any]) -> bool | None:
    """The output begins with reasoning unless `enable_thinking` is false."""
    return False if options.get("enable_thinking") is False else None


_think = ReasoningTags(
    start=("<think>",),
    end=("</think>",),
    also_ended_by=("<tool_call>",),
    switch=thinking_disabled,
    drop_stray=True,
    strip_reasoning="space",
)


def nemotron_v3(context: ParserContext) -> Parser:
    """Reasoning in `<think>`; with the template option `force_nonempty_content` the answer if there is no other."""
    parser = _think(context)
    return AnswerFromReasoning(parser) if context.template_options.get("force_nonempty_content") else parser
