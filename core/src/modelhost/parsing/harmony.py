"""Messages addressed to channels, as the gpt-oss models write them (the harmony format, github.com/openai/harmony)."""

from __future__ import annotations

import re
from dataclasses import dataclass

from .call_syntax import CallSyntax
from .context import ParserContext
from .engine import MarkedText, ToolEngine
from .events import Reasoning

_RECIPIENT = re.compile(r"\bto=(\S+)")
_CHANNEL = re.compile(r"<\|channel\|>\s*(\w+)")
_BEGINS_HEADER = ("<|start|>", "<|channel|>", "<|message|>", "assistant", " to=", "to=")
_BODY_ENDS = ("<|end|>", "<|return|>", "<|call|>", "<|start|>", "<|channel|>")
_SYNTAX = CallSyntax("<|channel|>commentary to=functions.NAME <|constrain|>json<|message|>ARGUMENTS<|call|>")


@dataclass(frozen=True, kw_only=True)
class Harmony:
    """Format of messages `<|start|>ROLE<|channel|>CHANNEL to=RECIPIENT<|message|>TEXT<|end|>`.

    Messages to a function are calls. Messages of the analysis channel are reasoning; others are content. Several
    messages of one kind are joined by a newline.

    Attributes:
        builtin: recipients that are not functions: their messages belong to their channel.
        syntax: a call as the models write it, for a forced tool choice.
    """

    builtin: tuple[str, ...] = ("browser", "python", "container")
    handles_reasoning: bool = True
    syntax: CallSyntax | None = _SYNTAX

    def __call__(self, context: ParserContext) -> HarmonyParser:
        return HarmonyParser(self)


class HarmonyParser(ToolEngine):
    """Parser of the format `Harmony`."""

    def __init__(self, form: Harmony) -> None:
        super().__init__()
        self._form = form
        self._beginnings = MarkedText(*_BEGINS_HEADER)
        self._header_end = MarkedText("<|message|>", "<|end|>", "<|return|>", "<|call|>")
        self._body_end = MarkedText(*_BODY_ENDS)
        self._header: list[str] = []
        self._kind = "content"
        self._seen = {"content": False, "reasoning": False, "call": False}
        self._joins = False
        self._empty = True

    def start(self) -> bool:
        """At the start of a message, or of text without a header."""
        decided, marker = self._beginnings.markers.at(self.buffer, self.at, self.final)
        if not decided:
            return False
        if marker is None:
            self._begin("content")
            self.state = self._body
        else:
            self._header = []
            self.state = self._in_header
        return True

    def _in_header(self) -> bool:
        text, marker = self._header_end.read(self)
        self._header.append(text)
        if marker is None:
            return False
        header = "".join(self._header)
        self._header = []
        if marker != "<|message|>":
            self.content(header)
            self.state = self.start
            return True
        recipient = _RECIPIENT.search(header)
        channel = _CHANNEL.search(header)
        self._address(channel[1] if channel else "final", recipient[1].split("<|")[0] if recipient else "")
        self.state = self._body
        return True

    def _address(self, channel: str, recipient: str) -> None:
        builtin = recipient.split(".")[0] in self._form.builtin
        if recipient and not builtin and recipient != "assistant":
            self.begin_call(recipient.removeprefix("functions."))
            self._kind = "call"
            self._empty = True
        else:
            self._begin("reasoning" if channel == "analysis" else "content")

    def _begin(self, kind: str) -> None:
        self._kind = kind
        self._joins = self._seen[kind]

    def _body(self) -> bool:
        text, marker = self._body_end.read(self)
        if text:
            self._text(text)
        if marker is None:
            return False
        if self.open_call is not None:
            if self._empty:
                self.arguments("{}")
            self.end_call()
        if marker in ("<|start|>", "<|channel|>"):
            self.at -= len(marker)
        self.state = self.start
        return True

    def _text(self, text: str) -> None:
        if self._kind == "call":
            self._empty = False
            self.arguments(text)
            return
        self._seen[self._kind] = True
        if self._joins:
            text = "\n" + text
            self._joins = False
        if self._kind == "reasoning":
            self.report(Reasoning(text))
        else:
            self._leading = False
            self.content(text)

    def close(self) -> None:
        self.content("".join(self._header))
        self._header = []
