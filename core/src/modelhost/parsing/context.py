"""What a parser may know about the request whose output it reads."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from .events import Parser


class Vocabulary(Protocol):
    """The part of a tokenizer that parsers use."""

    def token_id(self, text: str) -> int | None:
        """The id of the token spelled `text`; None if there is none."""
        ...


@dataclass(frozen=True, slots=True)
class ParserContext:
    """One request, as far as its output's format depends on it.

    Attributes:
        tools: the request's tools in OpenAI form, `{"type": "function", "function": {"name", "parameters"}}`, or the
            bare inner object.
        prompt: the prompt as text, or its end. It says whether reasoning began or ended there.
        template_options: what the chat template was given besides messages and tools, such as `enable_thinking`.
        vocabulary: the model's tokenizer.
        response_template: what the checkpoint says about how its answers are read, as transformers describes it.
    """

    tools: Sequence[Mapping[str, Any]] = ()
    prompt: str = ""
    template_options: Mapping[str, Any] = field(default_factory=dict)
    vocabulary: Vocabulary | None = None
    response_template: Mapping[str, Any] | None = None

    def has_tool(self, name: str) -> bool:
        """Whether the request offers a tool of that name."""
        return any(_function(tool).get("name") == name for tool in self.tools)

    def properties(self, name: str) -> Mapping[str, Any]:
        """JSON schemas of a tool's parameters by name; empty for an unknown tool or a schema without properties."""
        for tool in self.tools:
            function = _function(tool)
            if function.get("name") == name:
                schema = function.get("parameters")
                properties = schema.get("properties") if isinstance(schema, Mapping) else None
                return properties if isinstance(properties, Mapping) else {}
        return {}


ParserFactory = Callable[[ParserContext], Parser]
"""What the `target` of a parser record is: a format, called with the request's context for each output."""


def _function(tool: Mapping[str, Any]) -> Mapping[str, Any]:
    inner = tool.get("function", tool)
    return inner if isinstance(inner, Mapping) else {}
