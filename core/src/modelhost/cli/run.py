"""``modelhost run``: answer one prompt, or chat."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Annotated

import typer

from .answering import Answer, answer
from .conversation import (
    Conversation,
    chat_options,
    check_template_name,
    check_text,
    has_template,
    read_template,
    sampling_params,
)
from .loaded import architecture_line, backend_line, boot_plugins, model_line, warn_about
from .main import INTERRUPTED
from .options import ChatOptions, EngineOptions, ModelArgument, SamplingOptions
from .shown_answer import ShownAnswer
from .standard_input import piped_prompt
from .terminal import note, spinner

if TYPE_CHECKING:
    from modelhost.engine.model import ServedModel

PromptArgument = Annotated[
    str | None,
    typer.Argument(metavar="PROMPT", help="What to ask; without it and without a pipe, a chat", show_default=False),
]
VerboseFlag = Annotated[bool, typer.Option("--verbose", "-v", help="Show what was chosen, and timings, on stderr")]
TimingsFlag = Annotated[bool, typer.Option("--show-timings", help="Show timings on stderr")]


def run(
    model: ModelArgument,
    chat: ChatOptions,
    sampling: SamplingOptions,
    engine: EngineOptions,
    prompt: PromptArgument = None,
    verbose: VerboseFlag = False,
    show_timings: TimingsFlag = False,
) -> int:
    """Answer PROMPT, or chat in the terminal.

    Text piped in is the prompt, or follows PROMPT after a blank line. The answer goes to standard output as it is
    generated, everything else to standard error. Ctrl-C stops an answer; a second one leaves.
    """
    if chat.raw and chat.system is not None:
        raise typer.BadParameter("a system message needs a chat template, so it cannot be used with --raw")
    if chat.raw and chat.tools is not None:
        raise typer.BadParameter("tools need a chat template, so they cannot be used with --raw")
    text = piped_prompt(prompt)
    if text is not None:
        check_text(text)
    options = chat_options(chat)
    served = _load(model, chat, engine, verbose=verbose)
    conversation = Conversation(served, chat=_can_chat(served, chat), system=chat.system, options=options)
    params = sampling_params(served, sampling)
    if text is None:
        from .repl import Repl

        return Repl(served, conversation, params, timings=verbose or show_timings).run()
    shown = ShownAnswer(chat=conversation.chat)
    result = answer(served, conversation.request(text, params), shown.show)
    shown.end()
    say_how_it_went(result, served, timings=verbose or show_timings)
    return INTERRUPTED if result.finish_reason is None else 0


def say_how_it_went(result: Answer, served: ServedModel, *, timings: bool) -> None:
    """Say on standard error why an answer ended early and how long it took."""
    if result.finish_reason == "length" and (timings or sys.stderr.isatty()):
        limit = served.prepared.memory.max_model_len
        full = result.prompt_tokens + result.tokens >= limit
        note(f"[the context of {limit} tokens is full]" if full else f"[stopped after {result.tokens} tokens]")
    if timings:
        note(result.timings())


def _load(model: str, chat: ChatOptions, options: EngineOptions, *, verbose: bool) -> ServedModel:
    from modelhost.engine.config import EngineConfig
    from modelhost.engine.model import ServedModel

    registry = boot_plugins(no_plugins=options.no_plugins)
    config = EngineConfig.parse(**options.settings())
    started = time.perf_counter()
    served = ServedModel(
        model, config, tokenizer=chat.tokenizer, chat_template=read_template(chat.chat_template), registry=registry
    )
    check_template_name(served, chat.chat_template)
    warn_about(registry, served.prepared.backend_selection)
    with spinner(f"loading {model}"):
        served.engine  # noqa: B018 - the first access loads the weights
    if verbose or sys.stderr.isatty():
        _summary(served, chat, time.perf_counter() - started)
    return served


def _summary(served: ServedModel, chat: ChatOptions, seconds: float) -> None:
    from modelhost.engine.memory import gib

    prepared, memory = served.prepared, served.prepared.memory
    note(f"model         {model_line(prepared.source)}")
    note(f"architecture  {architecture_line(prepared.source)}")
    note(f"backend       {backend_line(prepared.backend_selection)}")
    note(
        f"memory        {gib(memory.total)} of {gib(memory.available)}: weights {gib(memory.weights)}, "
        f"KV cache {gib(memory.cache)}, workspace {gib(memory.workspace)}; context {memory.max_model_len:,} tokens"
    )
    if has_template(served) and not chat.raw:
        note(f"tool calls    {served.tool_parser}")
        note(f"reasoning     {served.reasoning_parser}")
    note(f"loaded        in {seconds:.1f} s\n")


def _can_chat(served: ServedModel, chat: ChatOptions) -> bool:
    """Whether to use the chat template; says so when there is none."""
    if chat.raw:
        return False
    if not has_template(served):
        note("note: the checkpoint has no chat template, so the text is continued as it is (see --chat-template)")
        return False
    return True
