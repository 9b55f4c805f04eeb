"""Output that is a sequence of messages to recipients, with calls in the messages to tools."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from modelhost.api.parsing import (
    CallSyntax,
    MarkedText,
    Parser,
    ParserContext,
    ParserFactory,
    Reasoning,
    ToolEngine,
)

_START, _MESSAGE, _ENDS = "<|start|>", "<|message|>", ("<|eom|>", "<|eot|>")
_ADDRESS = "to="
_HEADER = re.compile(rf"\s*(?:assistant)?\s*(?:{_ADDRESS}(?P<recipient>[^\s<]*))?\s*")
_NOT_RECIPIENT = re.compile(r"[\s<]")
_LONGEST_HEADER = 256


@dataclass(frozen=True, kw_only=True)
class AddressedMessages:
    """Format of messages `<|start|>assistant to=RECIPIENT<|message|>TEXT<|eom|>`, the last ended by `<|eot|>`.

    Messages to `self` are reasoning, those to `user` or to nobody are the answer, and others are to tools. The output
    begins within the first header. A header may stand in a text, where the model left out the end of its message.
    Several messages of one kind are joined by a newline.

    Attributes:
        calls: format of the calls within messages to tools; without one these messages are content.
        syntax: a message with a call as the models write it, for a forced tool choice.
    """

    calls: ParserFactory | None
    handles_reasoning: bool = True
    syntax: CallSyntax | None = None

    def __call__(self, context: ParserContext) -> AddressedMessagesParser:
        return AddressedMessagesParser(self, context)


class AddressedMessagesParser(ToolEngine):
    """Parser of the format `AddressedMessages`."""

    def __init__(self, form: AddressedMessages, context: ParserContext) -> None:
        super().__init__()
        self._form = form
        self._context = replace(context, tools=[*context.tools, *_doubled(context.tools)])
        self._doubled = {name: name.partition(".")[0] for name in map(_name, _doubled(context.tools))}
        self._between = MarkedText(_START, _MESSAGE, *_ENDS)
        self._in_body = MarkedText(_START, _MESSAGE, *_ENDS, _ADDRESS)
        self._recipient_end = MarkedText(_MESSAGE)
        self._header = ""
        self._in_header = False  # after the marker that begins one
        self._kind = "content"
        self._seen: set[str] = set()
        self._joins = False
        self._calls: Parser | None = None

    def start(self) -> bool:
        """In a header, or where one may begin."""
        text, marker = self._between.read(self)
        for place, character in enumerate(text, 1):
            self._header += character
            if not self._may_be_header():
                self.at -= len(text) - place + len(marker or "")
                self._begin("user")
                self._release()
                return True
        if marker is None:
            return False
        match = _HEADER.fullmatch(self._header)
        recipient = match["recipient"] if match else None
        if match is None or (recipient is not None and marker != _MESSAGE):
            self._begin("user")
            self._release()
        self._header = ""
        if marker == _MESSAGE:
            self._begin(recipient or "user")
        else:
            self._next(marker)
        return True

    def _may_be_header(self) -> bool:
        if len(self._header) > _LONGEST_HEADER:
            return False
        header = self._header.strip()
        if "assistant".startswith(header):
            return True
        address = header.removeprefix("assistant").lstrip()
        return _ADDRESS.startswith(address) or _HEADER.fullmatch(address) is not None

    def _next(self, marker: str) -> None:
        """A message has ended, or a header begins."""
        self._end()
        self._in_header = marker == _START
        self.state = self.start

    def _begin(self, recipient: str) -> None:
        """A message begins."""
        self._end()
        self._kind = {"self": "reasoning", "user": "content"}.get(recipient, "tool")
        self._joins = self._kind in self._seen
        if self._kind == "tool" and self._form.calls is not None:
            self._calls = self._form.calls(self._context)
        self.state = self._body

    def _end(self) -> None:
        if self._calls is not None:
            self.pass_on(self._calls.finish())
            self._calls = None

    def _body(self) -> bool:
        text, marker = self._in_body.read(self)
        self._text(text)
        if marker is None:
            return False
        if marker == _ADDRESS:
            self._header = marker
            self.state = self._in_recipient
        elif marker == _MESSAGE:
            self._begin("user")
        else:
            self._next(marker)
        return True

    def _in_recipient(self) -> bool:
        """In a text, after what may be the beginning of a header."""
        match = _NOT_RECIPIENT.search(self.buffer, self.at)
        end = match.start() if match else len(self.buffer)
        self._header += self.take(end)
        if match is None and len(self._header) <= _LONGEST_HEADER:
            return False
        decided, marker = self._recipient_end.markers.at(self.buffer, self.at, self.final)
        if not decided:
            return False
        if marker is not None and len(_ADDRESS) < len(self._header) <= _LONGEST_HEADER:
            self.at += len(marker)
            self._begin(self._header.removeprefix(_ADDRESS))
            self._header = ""
        else:
            self.state = self._body
            self._release()
        return True

    def _release(self) -> None:
        text, self._header = self._header, ""
        self._text(text)

    def _text(self, text: str) -> None:
        if not text:
            return
        if self._calls is not None:
            self.pass_on(self._calls.feed(text))
            return
        kind = "content" if self._kind == "tool" else self._kind
        self._seen.add(kind)
        if self._joins:
            text = "\n" + text
            self._joins = False
        if kind == "reasoning":
            self.report(Reasoning(text))
        else:
            self.content(text)

    def begin_call(self, name: str, id: str | None = None) -> None:
        super().begin_call(self._doubled.get(name, name), id)

    def close(self) -> None:
        if self.state == self.start:
            if self._in_header or not self._header.strip():
                return  # an unfinished header
            self._begin("user")
        self._release()
        self._end()


def _name(tool: Mapping[str, Any]) -> str:
    return str(tool["name"])


def _doubled(tools: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The same tools under the names `NAME.NAME`, which models write for names without a namespace."""
    functions = [tool.get("function", tool) for tool in tools]
    return [
        {**function, "name": f"{function['name']}.{function['name']}"}
        for function in functions
        if isinstance(function, Mapping) and isinstance(function.get("name"), str) and "." not in function["name"]
    ]
