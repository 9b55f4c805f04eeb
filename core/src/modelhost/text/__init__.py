"""Text in and out of models: tokenizers, chat templates and incremental detokenisation."""

from __future__ import annotations

from .chat_template import ChatTemplate
from .detokenizer import TextStream
from .tokenizer import Tokenizer

__all__ = ["ChatTemplate", "TextStream", "Tokenizer"]
