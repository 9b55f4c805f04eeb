"""``[call NAME]``, then a line ``key = value`` for each argument, then ``[end]``. Other lines continue the value."""

from __future__ import annotations

import re

from modelhost.api.parsing import MarkedText, ParserContext, ToolEngine, to_json, typed_value

_OPEN = "[call "
_NAME = re.compile(r"(\w+)\]\s*\n?")
_ARGUMENT = re.compile(r"(\w+) = (.*)", re.DOTALL)


class LinesParser(ToolEngine):
    """Reports an argument as soon as its last line is certain."""

    def __init__(self, context: ParserContext) -> None:
        super().__init__()
        self._context = context
        self._marker = MarkedText(_OPEN)
        self._schemas: dict[str, object] = {}
        self._argument: tuple[str, str] | None = None
        self._first = True

    def start(self) -> bool:
        """Outside a call."""
        text, marker = self._marker.read(self)
        self.content(text)
        if marker is not None:
            self.state = self._head
        return marker is not None

    def _head(self) -> bool:
        """After the marker: the name, or else the marker was text."""
        end = self._line_end()
        if end is None:
            return False
        name = _NAME.fullmatch(self.buffer, self.at, end)
        if name is None:
            self.content(_OPEN)
            self.state = self.start
            return True
        self.at = end
        self._schemas = dict(self._context.properties(name[1]))
        self._first = True
        self.begin_call(name[1])
        self.arguments("{")
        self.state = self._arguments
        return True

    def _arguments(self) -> bool:
        """In a call: one line."""
        end = self._line_end()
        if end is None:
            return False
        line = self.take(end)
        argument = _ARGUMENT.fullmatch(line)
        if line.strip() == "[end]":
            self._report()
            self.arguments("}")
            self.end_call()
            self.state = self.start
        elif argument:
            self._report()
            self._argument = argument[1], argument[2]
        else:
            key, value = self._argument or ("", "")
            self._argument = key, value + line
        return True

    def _line_end(self) -> int | None:
        """Where the line at the current place ends; ``None`` while that is not known."""
        end = self.buffer.find("\n", self.at) + 1
        return end or (len(self.buffer) if self.final else None)

    def _report(self) -> None:
        if self._argument is not None:
            key, text = self._argument
            value = typed_value(text.removesuffix("\n"), self._schemas.get(key))
            self.arguments(f"{'' if self._first else ', '}{to_json(key)}: {to_json(value)}")
            self._argument, self._first = None, False

    def close(self) -> None:
        """The output ended: in a call its last argument, after a marker alone that marker."""
        self._report()
        if self.state == self._head:
            self.content(_OPEN)
