"""Requests to a model: those of a chat know how their answers are to be read."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from difflib import get_close_matches
from typing import Any, Literal

from modelhost.api import ModelHostError, PluginError, ReasoningParser, RequestError, ToolParser, UnsupportedError
from modelhost.parsing.adjustment import Adjustment, ToolChoice, adjust_request
from modelhost.parsing.chain import output_parser
from modelhost.parsing.context import ParserContext, ParserFactory
from modelhost.parsing.events import Parser, Reasoning, parse
from modelhost.plugins import ParserSelection, Registration, load_target
from modelhost.text.tokenizer import Tokenizer

from .prompts import Message, TokenizedPrompt
from .reading import OutputReader, random_call_id
from .sampling_params import SamplingParams
from .tools import check_tool_choice, check_tools

__all__ = ["Chat", "ChatOptions", "GenerationRequest", "chat_request", "with_argument_objects"]

_NO_GRAMMAR = "this version of modelhost cannot hold generation to a grammar"


@dataclass(frozen=True, slots=True)
class GenerationRequest:
    """A prompt and what is to be done with it.

    Attributes:
        prompt: as tokens.
        params: how to sample.
        readers: one for each of the ``n`` answers of a chat; none for plain generation.
    """

    prompt: TokenizedPrompt
    params: SamplingParams
    readers: tuple[OutputReader, ...] = ()


@dataclass(frozen=True, slots=True)
class Chat:
    """What a chat asks for besides messages and sampling, checked.

    Attributes:
        tools: that the model may call.
        choice: among them.
        include_reasoning: report reasoning.
        template_options: variables of the chat template.
    """

    tools: list[dict[str, Any]] = field(default_factory=list)
    choice: ToolChoice = field(default_factory=ToolChoice)
    include_reasoning: bool = True
    template_options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def wants_calls(self) -> bool:
        return bool(self.tools) and self.choice.mode != "none"


@dataclass(frozen=True, slots=True)
class ChatOptions:
    """What a chat asks for besides messages and sampling. Names and meanings are OpenAI's and vLLM's.

    Attributes:
        tools: functions that the model may call, ``{"type": "function", "function": {"name", "parameters", ...}}``.
        tool_choice: ``"auto"``; ``"none"``: the tools are shown to the model and calls are not reported;
            ``"required"``; or ``{"type": "function", "function": {"name": NAME}}``.
        parallel_tool_calls: false keeps the first call only.
        include_reasoning: report reasoning; it is told from the answer either way.
        chat_template_kwargs: variables of the chat template, such as ``enable_thinking``.
    """

    tools: Sequence[Mapping[str, Any]] | None = None
    tool_choice: Literal["auto", "none", "required"] | Mapping[str, Any] = "auto"
    parallel_tool_calls: bool = True
    include_reasoning: bool = True
    chat_template_kwargs: Mapping[str, Any] | None = None

    @classmethod
    def parse(cls, options: Mapping[str, Any]) -> ChatOptions:
        """The options by name.

        Raises:
            RequestError: one is unknown.
        """
        known = [one.name for one in fields(cls)]
        for name in options:
            if name not in known:
                close = get_close_matches(name, known, 1)
                hint = f"did you mean {close[0]}?" if close else f"the options are {', '.join(known)}"
                raise RequestError(f"there is no chat option {name!r}; {hint}")
        return cls(**options)

    def checked(self) -> Chat:
        """The same, known to be well-formed.

        Raises:
            RequestError: something is malformed; the text begins with its path.
        """
        tools = check_tools(self.tools)
        choice = check_tool_choice(self.tool_choice, tools, parallel=self.parallel_tool_calls)
        options = self.chat_template_kwargs
        if options is not None and not isinstance(options, Mapping):
            raise RequestError(f"chat_template_kwargs: must be a mapping of names to values, got {options!r}")
        return Chat(tools, choice, self.include_reasoning, dict(options or {}))


def chat_request(
    prompt: TokenizedPrompt,
    params: SamplingParams,
    chat: Chat,
    *,
    tokenizer: Tokenizer,
    tools: ParserSelection[ToolParser] | None,
    reasoning: ParserSelection[ReasoningParser],
) -> GenerationRequest:
    """The request for a rendered conversation.

    A forced tool choice is carried out where that is exact without a grammar engine: one tool to call, a format that
    states how a call begins, and a model that does not reason first. The prompt then ends with the beginning of the
    call, and the answer goes on with its arguments. Everything else that needs a grammar is refused.

    Args:
        tools: the parser of calls; ``None`` when no calls are wanted.

    Raises:
        UnsupportedError: calls are wanted and no parser finds them, or a grammar is needed.
        PluginError: a parser cannot be imported or set up.
    """
    if tools is not None and tools.chosen is None and (chat.choice.forced or not tools.switched_off):
        raise UnsupportedError(
            f"tools were given, but the model has no tool parser: {tools.reason}. Name one with --tool-call-parser, or "
            "use --tool-call-parser none to get calls as text"
        )
    format = _Format(tools.chosen if tools else None, reasoning.chosen)
    context = ParserContext(
        chat.tools, prompt.text or "", chat.template_options, tokenizer, tokenizer.response_template
    )
    adjustment = format.adjusted(context, chat.choice)
    opening = ""
    if format.tools is not None:
        _refuse_strict(chat.tools)
        opening = _opening(format, context, chat, adjustment) if chat.choice.forced else ""
    if opening:
        text = (prompt.text or "") + opening
        prompt = TokenizedPrompt(tokenizer.encode(text, add_special_tokens=False), text)
    if adjustment.keep_special_tokens:
        params = replace(params, skip_special_tokens=False)
    reader = OutputReader(
        format.parser(context, include_reasoning=chat.include_reasoning),
        format.owner,
        "none"
        if format.tools is None
        else "first"
        if chat.choice.mode == "named" or not chat.choice.parallel
        else "all",
        chat.choice.mode != "named",
        opening,
        adjustment.new_call_id or random_call_id,
    )
    others = (
        replace(reader, parser=format.parser(context, include_reasoning=chat.include_reasoning))
        for _ in range(params.n - 1)
    )
    return GenerationRequest(prompt, params, (reader, *others))


@dataclass(frozen=True, slots=True)
class _Format:
    """The parsers of one request."""

    tools: Registration[ToolParser] | None
    reasoning: Registration[ReasoningParser] | None

    @property
    def owner(self) -> str:
        parsers = [one for one in (self.tools, self.reasoning) if one is not None]
        return " with ".join(f"{one.kind} {one.id!r} ({one.owner})" for one in parsers) or "the parser"

    def adjusted(self, context: ParserContext, choice: ToolChoice) -> Adjustment:
        """What the two ask for together."""
        calls = adjust_request(_form(self.tools), context, choice) if self.tools else Adjustment()
        quiet = ToolChoice("none")
        reasons = adjust_request(_form(self.reasoning), context, quiet) if self.reasoning else Adjustment()
        kept = calls.keep_special_tokens or reasons.keep_special_tokens
        records = [one.record for one in (self.tools, self.reasoning) if one is not None]
        return replace(calls, keep_special_tokens=kept or any(record.keep_special_tokens for record in records))

    def parser(self, context: ParserContext, *, include_reasoning: bool = True) -> Parser:
        """A parser for one answer.

        Raises:
            PluginError: a format cannot be imported, or fails to make one.
        """
        reasoning = _form(self.reasoning) if self.reasoning else None
        tools = _form(self.tools) if self.tools else None
        try:
            return output_parser(context, reasoning=reasoning, tools=tools, include_reasoning=include_reasoning)
        except ModelHostError:
            raise
        except Exception as error:
            raise PluginError(f"{self.owner} cannot read this chat: {type(error).__name__}: {error}") from error


def _form(registration: Registration[Any]) -> ParserFactory:
    form: ParserFactory = load_target(registration)
    if not callable(form):
        raise PluginError(f"{registration.owner}: {registration.record.target} must be a format, got {form!r}")
    return form


def _refuse_strict(tools: Sequence[Mapping[str, Any]]) -> None:
    for index, tool in enumerate(tools):
        if tool["function"].get("strict"):
            raise UnsupportedError(
                f"tools[{index}].function.strict: {_NO_GRAMMAR}, so arguments cannot be promised to follow the schema; "
                "leave it out"
            )


def _opening(format: _Format, context: ParserContext, chat: Chat, adjustment: Adjustment) -> str:
    """The text that begins the forced call.

    Raises:
        UnsupportedError: beginning with a text does not make the model call a tool.
    """
    choice = "'required'" if chat.choice.mode == "required" else f"function {chat.choice.name!r}"
    name = chat.choice.name or chat.tools[0]["function"]["name"]
    if chat.choice.mode == "required" and len(chat.tools) > 1:
        raise UnsupportedError(
            f"tool_choice {choice}: {_NO_GRAMMAR}, so a choice among {len(chat.tools)} tools cannot be forced; "
            "name one function, or use 'auto'"
        )
    if adjustment.opening is None:
        raise UnsupportedError(
            f"tool_choice {choice}: {_NO_GRAMMAR}, and {format.owner} does not state how a call begins; use 'auto'"
        )
    if any(isinstance(event, Reasoning) for event in format.parser(context).feed("x")):
        raise UnsupportedError(
            f"tool_choice {choice}: {_NO_GRAMMAR}, and this model reasons before it calls; switch reasoning off with "
            "chat_template_kwargs if its template can, or use 'auto'"
        )
    result = parse(format.parser(context), adjustment.opening)
    if [call.name for call in result.calls] != [name] or result.content or result.reasoning:
        raise UnsupportedError(
            f"tool_choice {choice}: {_NO_GRAMMAR}, and the beginning of a call does not make one here; use 'auto'"
        )
    return adjustment.opening


def with_argument_objects(messages: Sequence[Message]) -> list[Message]:
    """Messages whose tool calls hold arguments as objects, as chat templates expect, where they are JSON objects."""
    return [
        {**message, "tool_calls": [_with_object(call) for call in message["tool_calls"]]}
        if isinstance(message.get("tool_calls"), list | tuple)
        else message
        for message in messages
    ]


def _with_object(call: Any) -> Any:
    function = call.get("function") if isinstance(call, Mapping) else None
    if not isinstance(function, Mapping) or not isinstance(function.get("arguments"), str):
        return call
    try:
        value = json.loads(function["arguments"])
    except ValueError:
        return call
    return {**call, "function": {**function, "arguments": value}} if isinstance(value, dict) else call
