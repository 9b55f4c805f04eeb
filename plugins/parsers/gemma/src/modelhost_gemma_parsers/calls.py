"""Calls in the notation of Gemma models: `call:NAME{KEY:VALUE,KEY:{KEY:VALUE},KEY:[VALUE,VALUE]}`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from modelhost.api.parsing import (
    CallSyntax,
    MarkedText,
    Markers,
    ParserContext,
    ToolEngine,
    json_string,
    schema_types,
    to_json,
    typed_value,
)

_HEADER = re.compile(r"\s*call:\s*(?P<name>[^\s{}<>:,]+)\s*")
_LONGEST_HEADER = 4096
_CLOSER = {"{": "}", "[": "]"}


@dataclass(frozen=True, kw_only=True)
class GemmaCalls:
    """Format of calls whose texts stand between quotes that are tokens of their own.

    Values are typed by the schema of their parameter. Text without quotes is read in the same way; it may not hold
    a character of the notation.

    Attributes:
        open, close: markers around a call.
        quote: marker on both sides of a text.
        json_without_schema: a value that no schema describes is JSON if it can be; else it is a string.
    """

    open: str
    close: str
    quote: str
    json_without_schema: bool = False

    @property
    def syntax(self) -> CallSyntax:
        """A call as the models write it; no grammar is known for its arguments."""
        return CallSyntax(f"{self.open}call:NAME{{ARGUMENTS}}{self.close}", arguments=None)

    def __call__(self, context: ParserContext) -> GemmaCallsParser:
        return GemmaCallsParser(self, context)


@dataclass
class _Container:
    """An object or list that is not complete."""

    opener: str
    schema: Any
    members: int = 0
    separator: str = ""  # what was written before the next member

    def member_schema(self, key: str) -> Any:
        if not isinstance(self.schema, Mapping):
            return None
        if self.opener == "[":
            return self.schema.get("items")
        properties = self.schema.get("properties")
        return properties.get(key) if isinstance(properties, Mapping) else None


class GemmaCallsParser(ToolEngine):
    """Parser of the format `GemmaCalls`."""

    def __init__(self, form: GemmaCalls, context: ParserContext) -> None:
        super().__init__(strip=True)
        self._form = form
        self._context = context
        self._outer = MarkedText(form.open)
        self._header_end = MarkedText("{", form.open, form.close)
        self._tokens = Markers((form.quote, form.close, form.open))
        self._closing = Markers((form.close,))
        self._quoted = MarkedText(form.quote)
        self._key_end = MarkedText(*':,{}[]"', form.quote, form.close, form.open)
        self._bare_end = MarkedText(*',{}[]"', form.quote, form.close, form.open)
        self._ends = MarkedText(form.close, form.open)
        self._held: list[str] = []  # text of what may still turn out not to be a call
        self._held_length = 0
        self._stack: list[_Container] = []
        self._word: list[str] = []  # text of the arguments that is not reported yet
        self._schema: Any = None

    def start(self) -> bool:
        """Outside calls."""
        text, marker = self._outer.read(self)
        self.content(text)
        if marker is None:
            return False
        self._hold(marker)
        self.state = self._header
        return True

    def _header(self) -> bool:
        text, marker = self._header_end.read(self)
        self._hold(text)
        if marker is None and self._held_length <= _LONGEST_HEADER:
            return False
        is_short = self._held_length <= _LONGEST_HEADER
        match = _HEADER.fullmatch("".join(self._held).removeprefix(self._form.open)) if is_short else None
        if marker != "{" or match is None:
            self.at -= len(marker or "")
            self._release(self.take(self.at + len(marker)) if marker and marker != self._form.open else "")
            self.state = self.start
            return True
        self._forget()
        self.begin_call(match["name"])
        self._push("{", {"properties": self._context.properties(match["name"])})
        return True

    def _push(self, opener: str, schema: Any) -> None:
        self._stack.append(_Container(opener, schema))
        self.arguments(opener)
        self._next()

    def _next(self) -> None:
        """A member, or the end of the container, comes next."""
        self.state = self._before_key if self._stack[-1].opener == "{" else self._before_value

    def _token(self) -> tuple[bool, str]:
        """Skips white space: `(something follows, the marker or character that does)`."""
        self.skip_space()
        if self.at == len(self.buffer):
            return False, ""
        decided, marker = self._tokens.at(self.buffer, self.at, False)
        if not decided and self.final:
            self.rest()  # an unfinished marker
        return decided, marker or self.buffer[self.at : self.at + 1]

    def _before_key(self) -> bool:
        ready, token = self._token()
        if not ready:
            return False
        if token == "}":
            return self._pop()
        if token in self._tokens.texts and token != self._form.quote:
            return self._cut_off()
        if token == self._form.quote:
            self.at += len(token)
            self._word = [token]
            self.state = self._in_quoted_key
        else:
            self.state = self._in_key
        return True

    def _in_quoted_key(self) -> bool:
        text, marker = self._quoted.read(self, in_markup=True)
        self._word.append(text)
        if marker is not None:
            self._word.append(marker)
            self.state = self._in_key
        return marker is not None

    def _in_key(self) -> bool:
        text, marker = self._key_end.read(self, in_markup=True)
        self._word.append(text)
        if marker is None:
            return False
        if marker != ":":
            self.at -= len(marker)
            return self._break()
        key = "".join(self._word).strip()
        quote = self._form.quote
        if key.startswith(quote) and key.endswith(quote) and len(key) >= 2 * len(quote):
            key = key[len(quote) : -len(quote)]
        self._word = []
        container = self._stack[-1]
        self._separate(container)
        self.arguments(f'"{json_string(key)}": ')
        self._schema = container.member_schema(key)
        self.state = self._value
        return True

    def _separate(self, container: _Container) -> None:
        if container.members:
            self.arguments(", ")
        container.members += 1
        container.separator = ""

    def _before_value(self) -> bool:
        """In a list, before a value or the end."""
        ready, token = self._token()
        if not ready:
            return False
        if token == "]":
            return self._pop()
        container = self._stack[-1]
        if token in (self._form.close, self._form.open):
            return self._cut_off()
        self._separate(container)
        self._schema = container.member_schema("")
        self.state = self._value
        return True

    def _value(self) -> bool:
        ready, token = self._token()
        if not ready:
            return False
        if token in _CLOSER:
            self.at += 1
            self._push(token, self._schema)
        elif token == self._form.quote:
            self.at += len(token)
            if self._is_text():
                self.arguments('"')
                self.state = self._in_text
            else:
                self.state = self._in_quoted
        else:
            self.state = self._in_bare
        return True

    def _is_text(self) -> bool:
        if self._schema is None and self._form.json_without_schema:
            return False
        return schema_types(self._schema) == {"string"}

    def _in_text(self) -> bool:
        """In a text that is passed on as it arrives."""
        text, marker = self._quoted.read(self, in_markup=True)
        self.arguments(json_string(text))
        if marker is None:
            return False
        self.arguments('"')
        self.state = self._after_value
        return True

    def _in_quoted(self) -> bool:
        """In a text whose type is known when it is whole."""
        text, marker = self._quoted.read(self, in_markup=True)
        self._word.append(text)
        return marker is not None and self._typed()

    def _in_bare(self) -> bool:
        text, marker = self._bare_end.read(self, in_markup=True)
        self._word.append(text)
        if marker is None:
            return False
        self.at -= len(marker)
        if marker not in ",}]":
            return self._break()
        self._word = ["".join(self._word).rstrip()]
        return self._typed()

    def _typed(self) -> bool:
        text, self._word = "".join(self._word), []
        schema = self._schema
        if schema is None and self._form.json_without_schema:
            schema = {"type": "object"}
        self.arguments(to_json(typed_value(text, schema)))
        self.state = self._after_value
        return True

    def _after_value(self) -> bool:
        ready, token = self._token()
        if not ready:
            return False
        container = self._stack[-1]
        if token == _CLOSER[container.opener]:
            return self._pop()
        if token in (self._form.close, self._form.open):
            return self._cut_off()
        if token != ",":
            return self._break()
        self.at += 1
        container.separator = ","
        self._next()
        return True

    def _pop(self) -> bool:
        self.at += 1
        self.arguments(_CLOSER[self._stack.pop().opener])
        if self._stack:
            self.state = self._after_value
        else:
            self.end_call()
            self.state = self._after_call
        return True

    def _after_call(self) -> bool:
        self.content(self.skip_space())
        if self.at == len(self.buffer):
            return False
        decided, marker = self._closing.at(self.buffer, self.at, False)
        if not decided:
            if self.final:
                self.rest()  # an unfinished marker
            return False
        self.at += len(marker or "")
        self.state = self.start
        return True

    def _break(self) -> bool:
        """The arguments are not in the notation: the rest of them is passed on as written."""
        self._report_word()
        self.state = self._broken
        return True

    def _broken(self) -> bool:
        text, marker = self._ends.read(self, in_markup=True)
        self.arguments(text)
        return marker is not None and self._end(marker)

    def _cut_off(self) -> bool:
        """The call ends before its arguments are complete."""
        _, marker = self._ends.read(self)
        self._report_word()
        return self._end(marker or "")

    def _end(self, marker: str) -> bool:
        if marker == self._form.open:
            self.at -= len(marker)
        self._stack = []
        self.end_call()
        self.state = self.start
        return True

    def _report_word(self) -> None:
        separator = self._stack[-1].separator if self._stack and self._word else ""
        self.arguments((separator and f"{separator} ") + "".join(self._word))
        self._word = []

    def _hold(self, text: str) -> None:
        self._held.append(text)
        self._held_length += len(text)

    def _release(self, more: str) -> None:
        held = "".join([*self._held, more])
        self._forget()
        self.content(held)

    def _forget(self) -> None:
        self._held, self._held_length = [], 0

    def close(self) -> None:
        if self.open_call is None:
            self._release("")
        else:
            self._report_word()
