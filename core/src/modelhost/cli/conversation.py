"""What the user wrote, as prompts for a model: the messages of a chat, or text to be continued."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from modelhost.api import CheckpointError, RequestError, TokenizerError

from .options import ChatOptions, SamplingOptions

if TYPE_CHECKING:
    from modelhost.engine.chat import GenerationRequest
    from modelhost.engine.model import ServedModel
    from modelhost.engine.outputs import CompletionOutput
    from modelhost.engine.sampling_params import SamplingParams

_USUAL_SAMPLING = {"temperature": 0.8, "top_k": 40, "top_p": 0.95, "min_p": 0.05}
"""Of llama.cpp (``common/common.h``)."""


class Conversation:
    """The prompts of one session.

    Attributes:
        chat: whether prompts go through a chat template; otherwise each is continued on its own.
        system: the system message.
        options: of the chat, see :class:`modelhost.engine.chat.ChatOptions`.
        messages: what was said so far, without the system message.
    """

    def __init__(
        self, model: ServedModel, *, chat: bool, system: str | None = None, options: Mapping[str, Any] | None = None
    ) -> None:
        self.chat = chat
        self.system = system
        self.options = dict(options or {})
        self.messages: list[dict[str, Any]] = []
        self._model = model

    def request(self, text: str, params: SamplingParams) -> GenerationRequest:
        """The request for the user's next message; errors as :meth:`modelhost.engine.model.ServedModel.chat`.

        Raises:
            TokenizerError: the chat template fails.
            RequestError: the text is not valid Unicode, or there is no tokenizer.
        """
        from modelhost.engine.chat import GenerationRequest

        if not self.chat:
            return GenerationRequest(self._model.tokenize(text), params)
        system = [{"role": "system", "content": self.system}] if self.system is not None else []
        messages = [*system, *self.messages, {"role": "user", "content": text}]
        return self._model.chat(messages, params, **self.options)

    def add(self, text: str, answer: CompletionOutput | None) -> None:
        """Remember a message and its answer. A message without an answer is forgotten."""
        if not self.chat or answer is None or not (answer.content or answer.tool_calls):
            return
        said: dict[str, Any] = {"role": "assistant", "content": answer.content or ""}
        if answer.reasoning:
            said["reasoning"] = answer.reasoning
        if answer.tool_calls:
            said["tool_calls"] = [asdict(call) for call in answer.tool_calls]
        self.messages += [{"role": "user", "content": text}, said]

    def reset(self) -> None:
        """Forget all but the system message."""
        self.messages.clear()


def sampling_params(model: ServedModel, options: SamplingOptions) -> SamplingParams:
    """The given options over the checkpoint's own settings, or over llama.cpp's when the checkpoint states none.

    Raises:
        RequestError: a value is not allowed.
    """
    stated = model.prepared.source.checkpoint.generation_config
    usual: dict[str, Any] = {} if any(stated.get(name) is not None for name in _USUAL_SAMPLING) else _USUAL_SAMPLING
    return replace(model.default_sampling_params(), **{**usual, **options.given()})


def chat_options(options: ChatOptions) -> dict[str, Any]:
    """What the command line says about a chat.

    Raises:
        RequestError: a value is not JSON of the right kind, or the file of tools cannot be read.
    """
    given: dict[str, Any] = {}
    if options.tools is not None:
        try:
            text = Path(options.tools).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise RequestError(f"--tools {options.tools} cannot be read: {error}") from error
        given["tools"] = _json(f"--tools {options.tools}", text)
    if options.chat_template_kwargs is not None:
        given["chat_template_kwargs"] = _json("--chat-template-kwargs", options.chat_template_kwargs)
    return given


def _json(what: str, text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise RequestError(f"{what} is not JSON: {error}") from error


def has_template(model: ServedModel) -> bool:
    """Whether the model can chat."""
    tokenizer = model.tokenizer
    return model.chat_template is not None or (tokenizer is not None and bool(tokenizer.chat_templates))


def read_template(option: str | None) -> str | None:
    """The text of the file that ``option`` names; ``option`` itself, as the name of a template, when it is no file.

    Raises:
        CheckpointError: the file cannot be read as text.
    """
    if option is None or not _is_file(option):
        return option
    try:
        return Path(option).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CheckpointError(f"the chat template {option} cannot be read: {error}") from error


def check_template_name(model: ServedModel, option: str | None) -> None:
    """Check that ``option`` is a file or the name of one of the checkpoint's templates.

    Raises:
        TokenizerError: it is neither.
    """
    if option is None or _is_file(option):
        return
    names = list(model.tokenizer.chat_templates) if model.tokenizer else []
    if option not in names:
        has = f"its templates are {', '.join(sorted(names))}" if names else "it has no templates"
        raise TokenizerError(
            f"--chat-template {option}: there is no such file, and the checkpoint has no template of that name; {has}"
        )


def _is_file(name: str) -> bool:
    """Whether something readable is there: a file, or a pipe such as those of a shell's ``<(command)``."""
    return Path(name).exists() and not Path(name).is_dir()


def check_text(text: str) -> str:
    """``text``, unless there is nothing in it.

    Raises:
        RequestError: it is empty.
    """
    if not text:
        raise RequestError("the prompt is empty; give a text as argument or on standard input")
    return text
