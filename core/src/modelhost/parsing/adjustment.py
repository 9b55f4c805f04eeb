"""What a format asks of a request before its output can be read: the hook ``adjust_request``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

from .call_syntax import CallGrammar, CallSyntax
from .context import ParserContext, ParserFactory
from .events import Parser


@dataclass(frozen=True, slots=True)
class ToolChoice:
    """Whether the model is to call tools.

    Attributes:
        mode: as it likes, not at all, at least once, or the tool ``name``.
        parallel: it may make several calls.
    """

    mode: Literal["auto", "none", "required", "named"] = "auto"
    name: str | None = None
    parallel: bool = True

    @property
    def forced(self) -> bool:
        """Whether there must be a call."""
        return self.mode in ("required", "named")


@dataclass(frozen=True, slots=True, kw_only=True)
class Adjustment:
    """What a request needs.

    Attributes:
        keep_special_tokens: the text must be decoded with special tokens. The record's field of that name says the
            same for all requests.
        grammar: what generation is to be held to; None where nothing is forced, or the format states no syntax or
            one whose arguments have no grammar.
        opening: text that begins a forced call, when there is one tool to call: a model that is made to begin with it
            has called that tool, without a grammar engine.
        new_call_id: makes the id of a call from its index where the model wrote none; ``call_`` and 24 hexadecimal
            digits when None.
    """

    keep_special_tokens: bool = False
    grammar: CallGrammar | None = None
    opening: str | None = None
    new_call_id: Callable[[int], str] | None = None


@runtime_checkable
class AdjustsRequests(Protocol):
    """A format that has the hook."""

    def adjust_request(self, context: ParserContext, choice: ToolChoice) -> Adjustment:
        """What a request with these tools and this choice needs."""
        ...


def adjust_request(form: ParserFactory, context: ParserContext, choice: ToolChoice) -> Adjustment:
    """What ``form`` asks for: by its hook; without one, by its attribute ``syntax``; without that, nothing."""
    if isinstance(form, AdjustsRequests):
        return form.adjust_request(context, choice)
    return written_as(getattr(form, "syntax", None), context, choice)


def written_as(syntax: CallSyntax | None, context: ParserContext, choice: ToolChoice) -> Adjustment:
    """What follows from the syntax alone. Tools with ``strict`` need a grammar without being forced, too."""
    if syntax is None:
        return Adjustment()
    tools = [tool for tool in context.tools if choice.name in (None, tool["function"]["name"])]
    if not choice.forced:
        strict = [tool for tool in tools if tool["function"].get("strict")] if choice.mode == "auto" else []
        grammar = syntax.grammar(strict, required=False, parallel=choice.parallel) if strict else None
        return Adjustment(grammar=grammar)
    opening = syntax.opening(tools[0]["function"]["name"]) if len(tools) == 1 else None
    parallel = choice.parallel and choice.mode == "required"
    return Adjustment(grammar=syntax.grammar(tools, required=True, parallel=parallel), opening=opening)


@dataclass(frozen=True)
class Adjusted:
    """A format with a hook of its own: ``my_format = Adjusted(JsonCalls(...), my_hook)``."""

    form: ParserFactory
    hook: Callable[[ParserContext, ToolChoice], Adjustment]

    def __call__(self, context: ParserContext) -> Parser:
        return self.form(context)

    def adjust_request(self, context: ParserContext, choice: ToolChoice) -> Adjustment:
        return self.hook(context, choice)


@dataclass(frozen=True)
class ByRequest:
    """A format that depends on the request: `my_format = ByRequest(choose)`.

    Attributes:
        choose: gives the format for a request.
        handles_reasoning: the formats find reasoning as well as calls.
    """

    choose: Callable[[ParserContext], ParserFactory]
    handles_reasoning: bool = False

    def __call__(self, context: ParserContext) -> Parser:
        return self.choose(context)(context)

    def adjust_request(self, context: ParserContext, choice: ToolChoice) -> Adjustment:
        return adjust_request(self.choose(context), context, choice)
