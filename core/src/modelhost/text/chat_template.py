"""Chat templates: a conversation to the prompt that a model was trained on.

Rendering gives what `apply_chat_template` of transformers gives for the same template and conversation.
"""

from __future__ import annotations

import dataclasses
import traceback
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import jinja2
import numpy as np

from modelhost.api import RequestError, TokenizerError

from .chat_environment import MARK_GENERATED, SPAN_END, SPAN_START, environment

_MARK = "CONTINUE_FINAL_MESSAGE_TAG "
_REASONING = ("reasoning_content", "thinking", "reasoning")


class ChatTemplate:
    """One compiled template."""

    def __init__(self, source: str, special_tokens: Mapping[str, str] | None = None) -> None:
        """
        Args:
            source: Jinja source.
            special_tokens: `bos_token`, `eos_token`, ...: variables of the template.

        Raises:
            TokenizerError: the source is not a valid template; the text names the line.
        """
        self.source = source
        self._special_tokens = dict(special_tokens or {})
        self._template = _compile(source)

    def render(
        self,
        messages: Sequence[Any],
        *,
        tools: Sequence[Any] | None = None,
        documents: Sequence[Any] | None = None,
        add_generation_prompt: bool = False,
        continue_final_message: bool = False,
        **variables: Any,
    ) -> str:
        """The prompt for `messages`, each a mapping (or pydantic model or dataclass) with a `role`.

        Args:
            tools: JSON-schema descriptions of the functions that the model may call.
            documents: mappings with `title` and `text`.
            add_generation_prompt: end with the header of the assistant's next message.
            continue_final_message: end within the last message, for the model to go on with it.
            variables: passed to the template, over the special tokens.

        Raises:
            TokenizerError: the template raises or fails; the text has its message and line.
            RequestError: `messages` is empty or not made of mappings, or the options contradict each other.
        """
        if continue_final_message and add_generation_prompt:
            raise RequestError("continue_final_message and add_generation_prompt exclude each other; set one of them.")
        chat = _messages(messages)
        ending = _mark_final_text(chat) if continue_final_message else ""
        context = self._special_tokens | _plain(variables)
        text = self._render(
            context
            | {
                "messages": chat,
                "tools": _plain(tools),
                "documents": _plain(documents),
                "add_generation_prompt": add_generation_prompt,
            }
        )
        return _cut_at_mark(text, ending) if continue_final_message else text

    def render_with_spans(self, messages: Sequence[Any], **options: Any) -> tuple[str, list[tuple[int, int]]]:
        """`render`, and which (start, end) stretches of the prompt lie in `{% generation %}` blocks, in characters."""
        token = MARK_GENERATED.set(True)
        try:
            marked = self.render(messages, **options)
        finally:
            MARK_GENERATED.reset(token)
        before, *blocks = marked.split(SPAN_START)
        text, spans = before, []
        for block in blocks:
            inside, _, after = block.partition(SPAN_END)
            spans.append((len(text), len(text) + len(inside)))
            text += inside + after
        return text, spans

    def _render(self, context: dict[str, Any]) -> str:
        try:
            return self._template.render(context)
        except Exception as error:
            message = error.message if isinstance(error, jinja2.TemplateError) else str(error)
            raise TokenizerError(f"Chat template{_line(error)}: {message or type(error).__name__}") from error


@lru_cache(maxsize=32)
def _compile(source: str) -> jinja2.Template:
    try:
        return environment().from_string(source)
    except jinja2.TemplateSyntaxError as error:
        raise TokenizerError(f"Chat template, line {error.lineno}: {error.message}") from error


def _line(error: BaseException) -> str:
    """Where in the template an error arose: Jinja rewrites tracebacks to the template's own lines."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == "<template>"]
    return f", line {frames[-1].lineno}" if frames else ""


def _messages(messages: Sequence[Any]) -> list[dict[str, Any]]:
    """Messages as plain data, without fields that are None, and reasoning under each name that templates read."""
    plain = _plain(messages)
    if not isinstance(plain, (list, tuple)) or not plain:
        raise RequestError("A chat needs at least one message.")
    chat = []
    for index, message in enumerate(plain):
        if not isinstance(message, dict):
            raise RequestError(f"messages[{index}] is a {type(messages[index]).__name__}; a mapping is expected.")
        message = {key: value for key, value in message.items() if value is not None}
        reasoning = next((message[name] for name in _REASONING if name in message), None)
        if reasoning is not None:
            message = {"thinking": reasoning, **message, "reasoning_content": reasoning}
        chat.append(message)
    return chat


def _plain(value: Any) -> Any:
    """Plain JSON data only: a template is untrusted code, and must not reach methods of richer objects."""
    if value is None or type(value) in (str, int, float, bool):
        return value
    for kind in (str, int, float):
        if isinstance(value, kind):
            return getattr(kind, f"__{kind.__name__}__")(value)
    if isinstance(value, Mapping):
        return {_plain(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(map(_plain, value)) if type(value) in (list, tuple) else [_plain(item) for item in value]
    if isinstance(value, np.generic):
        return _plain(value.item())
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if callable(dump := getattr(value, "model_dump", None)):
        return _plain(dump())
    return f"<{type(value).__name__}>"


def _mark_final_text(chat: list[dict[str, Any]]) -> str:
    """Append a mark to the last text of the last message; returns that text."""
    content = chat[-1].get("content")
    if isinstance(content, str):
        chat[-1]["content"] = content + _MARK
        return content
    for part in reversed(content or ()):
        if isinstance(part, dict) and isinstance(part.get("text"), str):
            text: str = part["text"]
            part["text"] = text + _MARK
            return text
    raise RequestError("continue_final_message: the last message has no text to continue.")


def _cut_at_mark(text: str, ending: str) -> str:
    position = text.rfind(_MARK.strip())
    if position < 0 or ending.strip() not in text:
        raise TokenizerError(
            "continue_final_message: the chat template does not show the last message's text as it is, "
            "so there is no place to continue from."
        )
    # A template that trims the message took the mark's trailing space, and so the message's own.
    return text[:position] if text.startswith(_MARK, position) else text[:position].rstrip()
