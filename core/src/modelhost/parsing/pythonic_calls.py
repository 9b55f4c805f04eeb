"""Calls written as Python: `[get_weather(city="Paris", days=3), get_time()]`."""

from __future__ import annotations

import re
from dataclasses import dataclass

from .context import ParserContext
from .engine import MarkedText, ToolEngine
from .python_literal import PythonLiteral
from .typed_values import json_string

_NAME = re.compile(r"[A-Za-z_][\w.\-]*")
_NAME_END = re.compile(r"[^\w.\-]")
_KEY = re.compile(r"[A-Za-z_]\w*")


@dataclass(frozen=True, kw_only=True)
class PythonicCalls:
    """Format of calls in Python syntax with keyword arguments that are literals.

    It states no syntax for a forced tool choice: `[NAME(` may be prose, so that a call begins with its first argument
    only, and which one that is cannot be written for the model.

    Attributes:
        open: markers that begin a block of calls.
        close: markers that end a block; they may be missing in the output.
        bare: calls also count without a marker when the output begins with them.
        bracketed: calls stand in square brackets, with commas between; else white space is between them.
        strip: see ToolEngine.
    """

    open: tuple[str, ...] = ()
    close: tuple[str, ...] = ()
    bare: bool = False
    bracketed: bool = True
    strip: bool = False

    def __call__(self, context: ParserContext) -> PythonicCallsParser:
        return PythonicCallsParser(self)


class PythonicCallsParser(ToolEngine):
    """Parser of the format `PythonicCalls`."""

    def __init__(self, form: PythonicCalls) -> None:
        super().__init__(strip=form.strip)
        self._form = form
        self._outer = MarkedText(*form.open)
        self._ends = MarkedText(*form.open, *form.close)
        self._held: list[str] = []
        self._word: list[str] = []
        self._literal = PythonLiteral()
        self._marked = False
        self._in_list = False
        self._block_calls = 0
        self._count = 0
        self._name = ""

    def start(self) -> bool:
        """At the start of the output, where some formats need no marker."""
        if self._form.bare:
            self.content(self.skip_space())
            if self.at == len(self.buffer):
                return False
            decided, marker = self._outer.markers.at(self.buffer, self.at, self.final)
            if not decided:
                return False
            if marker is None:
                self._block_calls = 0
                self.state = self._block
                return True
        self.state = self._text
        return True

    def _text(self) -> bool:
        text, marker = self._outer.read(self)
        self.content(text)
        if marker is None:
            return False
        self._held = [marker]
        self._marked = True
        self._block_calls = 0
        self.state = self._block
        return True

    def _block(self) -> bool:
        """Before a list or a call, or after the last."""
        if not self._space_consumed():
            return False
        if self._marked:
            decided, marker = self._ends.markers.at(self.buffer, self.at, self.final and bool(self._held))
            if not decided:
                if self.final:
                    self.rest()  # an unfinished marker
                return False
            if marker is not None:
                self.at += len(marker)
                return self._block_marker(marker)
        character = self.buffer[self.at]
        if self._form.bracketed:
            if character == "[" and not self._block_calls:
                self._held.append(self.take(self.at + 1))
                self._in_list = True
                self.state = self._call
                return True
        elif _NAME.match(character):
            self.state = self._call
            return True
        return self._stray()

    def _block_marker(self, marker: str) -> bool:
        if marker in self._form.open:
            self._held.append(marker)
            self._block_calls = 0
        elif self._held:
            self._held.append(marker)
            self._fail()
        else:
            self.drop_space()
            self.state = self._text
        return True

    def _stray(self) -> bool:
        if self._held or not self._marked:
            self._fail()
            return True
        end, marker = self._ends.markers.find(self.buffer, self.at, self.final)
        text = self.take(end)
        self.content(text)
        return bool(text) or marker is not None

    def _fail(self) -> None:
        held, self._held = "".join([*self._held, *self._word]), []
        self._word = []
        self._in_list = False
        self.state = self._block if self._marked and self._block_calls else self._text
        self.content(held)

    def _call(self) -> bool:
        """Before or in the name of a call."""
        if not self._word:
            if not self._space_consumed():
                return False
            character = self.buffer[self.at]
            if self._in_list and self._block_calls and character == "]":
                return self._list_end()
            if not _NAME.match(character):
                return self._break()
        match = _NAME_END.search(self.buffer, self.at)
        self._word.append(self.take(match.start() if match else len(self.buffer)))
        if match is None:
            return False
        if match.group() != "(":
            return self._break()
        self._word.append(self.take(self.at + 1))
        self._name = "".join(self._word)[:-1]
        self._held += self._word
        self._word = []
        self._count = 0
        self.state = self._argument
        return True

    def _argument(self) -> bool:
        """Before or in the name of an argument."""
        if not self._word:
            self._hold(self.skip_space())
            if self.at == len(self.buffer):
                return False
            character = self.buffer[self.at]
            if character == ")":
                return self._call_end()
            if not _KEY.match(character):
                return self._break()
        match = _NAME_END.search(self.buffer, self.at)
        self._word.append(self.take(match.start() if match else len(self.buffer)))
        if match is None:
            return False
        if _KEY.fullmatch("".join(self._word)) is None:
            return self._break()
        self.state = self._equals
        return True

    def _equals(self) -> bool:
        space = self.skip_space()
        if self.at == len(self.buffer):
            self._word.append(space)
            return False
        if self.buffer[self.at] != "=":
            self._word.append(space)
            return self._break()
        self.at += 1
        key = "".join(self._word).strip()
        self._word = []
        self._begin()
        self.arguments(f'{", " if self._count else "{"}"{json_string(key)}": ')
        self._count += 1
        self._literal = PythonLiteral()
        self.state = self._value
        return True

    def _begin(self) -> None:
        if self.open_call is None:
            self._held = []
            self._block_calls += 1
            self.begin_call(self._name)

    def _value(self) -> bool:
        end, json = self._literal.convert(self.buffer, self.at)
        self.at = end
        self.arguments(json)
        if not self._literal.valid:
            return self._break()
        if self._literal.done:
            self.state = self._after_value
        return self.at < len(self.buffer)

    def _after_value(self) -> bool:
        self.skip_space()
        if self.at == len(self.buffer):
            return False
        character = self.buffer[self.at]
        if character == ")":
            return self._call_end()
        if character != ",":
            return self._break()
        self.at += 1
        self.state = self._argument
        return True

    def _call_end(self) -> bool:
        self._begin()
        self.at += 1
        self.arguments("}" if self._count else "{}")
        self.end_call()
        self.state = self._after_call if self._in_list else self._block
        return True

    def _after_call(self) -> bool:
        """In a list, after a call."""
        self.skip_space()
        if self.at == len(self.buffer):
            return False
        character = self.buffer[self.at]
        if character == "]":
            return self._list_end()
        if character != ",":
            return self._break()
        self.at += 1
        self.state = self._call
        return True

    def _list_end(self) -> bool:
        self.at += 1
        self._in_list = False
        self.state = self._block if self._marked else self._text
        return True

    def _break(self) -> bool:
        """Not, or no longer, a call in this syntax."""
        if self.open_call is not None:
            unread = self._literal.unread()
            self.end_call()
            self._word.insert(0, unread)
        self._fail()
        return True

    def _hold(self, text: str) -> None:
        if self.open_call is None:
            self._held.append(text)

    def _space_consumed(self) -> bool:
        space = self.skip_space()
        if self._held:
            self._held.append(space)
        elif not self._in_list:
            self.content(space)
        return self.at < len(self.buffer)

    def close(self) -> None:
        unread = self._literal.unread() if self.open_call is not None else ""
        held = "".join([*self._held, *self._word])
        self._held, self._word = [], []
        if self.open_call is None:
            self.content(held)
        else:
            self.arguments(unread + held)
