"""Text in and out of models: tokenizers, chat templates and incremental detokenisation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .detokenizer import TextStream
from .tokenizer import Tokenizer

if TYPE_CHECKING:
    from .chat_template import ChatTemplate

__all__ = ["ChatTemplate", "TextStream", "Tokenizer"]


def __getattr__(name: str) -> Any:
    if name == "ChatTemplate":  # imports Jinja, which only chats need
        from .chat_template import ChatTemplate

        return ChatTemplate
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
