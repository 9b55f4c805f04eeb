"""What the user wrote, as prompts for a model: the messages of a chat, or text to be continued."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from modelhost.api import CheckpointError, RequestError, TokenizerError

from .options import SamplingOptions

if TYPE_CHECKING:
    from modelhost.engine.model import ServedModel
    from modelhost.engine.prompts import TokenizedPrompt
    from modelhost.engine.sampling_params import SamplingParams

_USUAL_SAMPLING = {"temperature": 0.8, "top_k": 40, "top_p": 0.95, "min_p": 0.05}
"""Of llama.cpp (``common/common.h``)."""


class Conversation:
    """The prompts of one session.

    Attributes:
        chat: whether prompts go through a chat template; otherwise each is continued on its own.
        system: the system message.
        messages: what was said so far, without the system message.
    """

    def __init__(self, model: ServedModel, *, chat: bool, system: str | None = None) -> None:
        self.chat = chat
        self.system = system
        self.messages: list[dict[str, str]] = []
        self._model = model

    def prompt(self, text: str) -> TokenizedPrompt:
        """The prompt for the user's next message.

        Raises:
            TokenizerError: the chat template fails.
            RequestError: the text is not valid Unicode, or there is no tokenizer.
        """
        if not self.chat:
            return self._model.tokenize(text)
        system = [{"role": "system", "content": self.system}] if self.system is not None else []
        return self._model.render([*system, *self.messages, {"role": "user", "content": text}])

    def add(self, text: str, answer: str) -> None:
        """Remember a message and its answer. A message without an answer is forgotten."""
        if self.chat and answer:
            self.messages += [{"role": "user", "content": text}, {"role": "assistant", "content": answer}]

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
