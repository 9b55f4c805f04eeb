"""Calls written as a header that holds the name, then the arguments as JSON."""

from __future__ import annotations

import re
from dataclasses import dataclass

from .call_syntax import CallSyntax
from .context import ParserContext
from .engine import MarkedText, ToolEngine
from .json_scanner import JsonScanner
from .markers import Markers


@dataclass(frozen=True, kw_only=True)
class HeaderCalls:
    """Format of calls such as `<call>NAME<arguments>{...}<end>`.

    Attributes:
        open: markers that a section of calls begins with; calls outside a section count too.
        close: markers that end a section.
        call: markers that begin a call.
        header: regular expression of what stands between the marker of a call and its arguments, without white space
            at its ends; the group `name` is the name, the optional group `id` the id.
        arguments: texts that end the header and begin the arguments. `{` is also part of the arguments.
        end: markers that end a call; they may be missing in the output.
        fence: texts to leave out between the arguments and the end of the call, such as the end of a code block.
        strip: see ToolEngine.
        syntax: a call as the models write it, for a forced tool choice.
    """

    call: tuple[str, ...]
    arguments: tuple[str, ...]
    end: tuple[str, ...] = ()
    open: tuple[str, ...] = ()
    close: tuple[str, ...] = ()
    header: str = r"(?P<name>\S+)"
    fence: tuple[str, ...] = ()
    strip: bool = False
    syntax: CallSyntax | None = None

    def __call__(self, context: ParserContext) -> HeaderCallsParser:
        return HeaderCallsParser(self)


class HeaderCallsParser(ToolEngine):
    """Parser of the format `HeaderCalls`."""

    def __init__(self, form: HeaderCalls) -> None:
        super().__init__(strip=form.strip)
        self._form = form
        self._pattern = re.compile(form.header, re.DOTALL)
        self._outer = MarkedText(*form.open, *form.call)
        self._inner = MarkedText(*form.open, *form.call, *form.close, *form.end, *form.fence)
        self._header_end = MarkedText(*form.arguments, *form.open, *form.call, *form.close, *form.end)
        self._ends = Markers([*form.open, *form.call, *form.close, *form.end, *form.fence])
        self._scanner = JsonScanner()
        self._held: list[str] = []
        self._header: list[str] = []
        self._empty = True

    def start(self) -> bool:
        """Outside a section."""
        text, marker = self._outer.read(self)
        self.content(text)
        return marker is not None and self._marker(marker)

    def _section(self) -> bool:
        """In a section, or after the arguments of a call that has an end marker."""
        text, marker = self._inner.read(self, in_markup=not self._held)
        if self._held:
            self._held.append(text)
            if text.strip():
                self.close()
        else:
            self.content(text)
        return marker is not None and self._marker(marker)

    def _marker(self, marker: str) -> bool:
        form = self._form
        if marker in form.call:
            self._held.append(marker)
            self._header = []
            self.state = self._head
        elif marker in form.open:
            self._held.append(marker)
            self.state = self._section
        elif marker in form.close:
            if self._held:
                self._held.append(marker)
                self.close()
            else:
                self.drop_space()
            self.state = self.start
        else:  # the end of a call, or of its code block
            self.drop_space()
            self.state = self._section
        return True

    def _head(self) -> bool:
        text, marker = self._header_end.read(self)
        self._header.append(text)
        if marker is None:
            return False
        match = self._pattern.fullmatch("".join(self._header).strip()) if marker in self._form.arguments else None
        if match is None:
            self.at -= len(marker)
            self._not_a_call()
            return True
        self._held = []
        self._header = []
        self.begin_call(match["name"], match.groupdict().get("id"))
        if marker == "{":
            self.at -= 1
        self._scanner = JsonScanner()
        self._empty = True
        self.state = self._arguments
        return True

    def _not_a_call(self) -> None:
        self.close()
        self.state = self._section if self.calls else self.start

    def _arguments(self) -> bool:
        """In the arguments, which are passed on as they arrive."""
        if self._empty:
            self.skip_space()
            if self.at == len(self.buffer):
                return False
            decided, marker = self._ends.at(self.buffer, self.at, self.final)
            if not decided:
                return False
            if marker is not None:
                self.arguments("{}")
                return self._arguments_end()
            self._empty = False
        if self._scanner.valid:
            self.arguments(self.take(self._scanner.scan(self.buffer, self.at)))
            ended = self._scanner.done and self._scanner.valid
        else:
            end, marker = self._ends.find(self.buffer, self.at, self.final)
            self.arguments(self.take(end))
            ended = marker is not None
            if not ended:
                return False
        if ended:
            return self._arguments_end()
        return self.at < len(self.buffer)

    def _arguments_end(self) -> bool:
        self.end_call()
        self.state = self._section
        return True

    def close(self) -> None:
        held = "".join([*self._held, *self._header])
        self._held, self._header = [], []
        self.content(held)
