"""The format that Inkling models write."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from modelhost.api.parsing import (
    Block,
    Blocks,
    Chain,
    Event,
    JsonCalls,
    Parser,
    ParserContext,
    ParserFactory,
    PlainText,
    ReasoningTags,
)

from .headers import MESSAGE, MessageHeaders

_CALL = "<|content_invoke_tool_json|>"
_THINKING = "<|content_thinking|>"
_TEXT = ("<|content_text|>", "<|content_invoke_tool_text|>", "<|content_tool_error|>")
_END = ("<|end_message|>", "<|content_model_end_sampling|>")


class UnreadCall(PlainText):
    """Parser of a call when calls are not looked for: it is text."""

    def __init__(self, context: ParserContext) -> None:
        self._before = _CALL

    def feed(self, text: str, token_ids: Sequence[int] = ()) -> list[Event]:
        before, self._before = self._before, ""
        return super().feed(before + text)

    def finish(self) -> list[Event]:
        return self.feed("")


@dataclass(frozen=True)
class Messages:
    """Format of messages `<|message_model|>`, the marker of its kind, its text, `<|end_message|>`."""

    blocks: Blocks
    handles_reasoning: bool = True

    def __call__(self, context: ParserContext) -> Parser:
        in_header = context.prompt.rstrip().endswith(MESSAGE)
        headers = MessageHeaders(_CALL, (_THINKING, *_TEXT, *_END), in_header=in_header)
        return Chain(headers, self.blocks(context))


def _messages(calls: ParserFactory) -> Messages:
    thinking = ReasoningTags(start=(), end=(), strip_reasoning="space")
    return Messages(
        Blocks(
            blocks=(
                Block(open=(_THINKING,), close=_END, holds=thinking),
                Block(open=_TEXT, close=_END),
                Block(open=(_CALL,), close=_END, holds=calls),
            )
        )
    )


inkling = _messages(JsonCalls(bare="start", arguments=("args", "arguments")))
"""Messages of thinking, of text and of `{"name": ..., "args": {...}}`"""

inkling_reasoning = _messages(UnreadCall)
