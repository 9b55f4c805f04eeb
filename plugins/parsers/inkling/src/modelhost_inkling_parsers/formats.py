"""The format that Inkling models write."""

from __future__ import annotations

from modelhost.api.parsing import Block, Blocks, ByRequest, CallSyntax, JsonCalls, ParserContext, ReasoningTags

_HEADER = "<|message_model|>"
_CALL = "<|content_invoke_tool_json|>"
_THINKING = ("<|content_thinking|>",)
_TEXT = ("<|content_text|>", "<|content_invoke_tool_text|>", "<|content_tool_error|>")
_END = ("<|end_message|>", "<|content_model_end_sampling|>")

_thinking = Block(open=_THINKING, close=_END, holds=ReasoningTags(start=(), end=(), strip_reasoning="space"))
_text = Block(open=_TEXT, close=_END)
_call = Block(
    open=(_CALL,), close=_END, holds=JsonCalls(bare="start", arguments=("args", "arguments")), drops_header=True
)
_unread_call = Block(open=(_CALL,), close=_END, holds="marked content", drops_header=True)


def _messages(context: ParserContext) -> Blocks:
    """The prompt ends with the header of the first message."""
    header = "" if context.prompt.rstrip().endswith(_HEADER) else _HEADER
    syntax = CallSyntax(f'{header}NAME{_CALL}{{"name":"NAME","args":ARGUMENTS}}{_END[0]}', single=True)
    return Blocks(blocks=(_thinking, _text, _call), header=_HEADER, syntax=syntax)


inkling = ByRequest(_messages, handles_reasoning=True)
"""Messages of thinking, of text and of `{"name": ..., "args": {...}}`"""

inkling_reasoning = Blocks(blocks=(_thinking, _text, _unread_call), header=_HEADER)
"""The same messages; calls are text"""
