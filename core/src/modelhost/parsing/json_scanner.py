"""Follows a JSON value that arrives in pieces, and reads values that were cut off."""

from __future__ import annotations

import json
import re
from typing import Any

_TOKEN = re.compile(r'[ \t\n\r]+|[{}\[\]:,]|"[^"\\\x00-\x1f]*"|"|[-+.\w]+')
_CHARACTERS = re.compile(r'[^"\\\x00-\x1f]+')
_LITERAL = re.compile(r"true|false|null|-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?")
_LITERAL_END = re.compile(r"[^-+.\w]")
_HEXADECIMAL = frozenset("0123456789abcdefABCDEF")
_CLOSER = {"{": "}", "[": "]"}
_OUTSIDE = re.compile(r'["{}\[\]]')


class JsonScanner:
    """Finds where one JSON value ends and whether it is valid up to there. It looks at each character once.

    After the first mistake it goes on following strings and brackets only, so that it still finds the likely end.

    Attributes:
        done: the value is complete.
        valid: no mistake so far.
    """

    def __init__(self) -> None:
        self.done = False
        self.valid = True
        self._open: list[str] = []
        self._expected = "value"
        self._in_string = False
        self._escape = 0  # 1: after a backslash; 2 to 5: hexadecimal digits still to come, plus one
        self._literal = ""

    def scan(self, text: str, start: int, end: int | None = None) -> int:
        """Follows `text[start:end]`. Returns where it stopped: at the end of the text or of the value, or right at the
        first mistake (the character is not consumed; calling again goes on with `valid` False)."""
        end = len(text) if end is None else end
        at = start
        if self._in_string and not self._escape:
            match = _CHARACTERS.match(text, at, end)
            at = match.end() if match else at
        while at < end and not self.done:
            was_valid = self.valid
            if self._in_string:
                at = self._string(text, at, end)
            elif self.valid:
                at = self._structure(text, at, end)
            else:
                at = self._brackets(text, at, end)
            if was_valid and not self.valid:
                break
        return at

    @classmethod
    def after_key(cls) -> JsonScanner:
        """A scanner that is within an object, after a key and before its colon."""
        scanner = cls()
        scanner._open.append("{")
        scanner._expected = "colon"
        return scanner

    @property
    def closers(self) -> str:
        """The brackets that close what is open."""
        return "".join(_CLOSER[character] for character in reversed(self._open))

    @property
    def in_value_string(self) -> bool:
        """Within a string that is a value, not within an escape."""
        return self._in_string and not self._escape and self._expected not in ("key", "first key")

    @property
    def in_literal(self) -> bool:
        """Within a number or word."""
        return bool(self._literal)

    @property
    def between_values(self) -> bool:
        """Where the text up to here, with the closers added, is complete."""
        inside = self._in_string or self._literal
        return self.done or (not inside and self._expected in ("first key", "item", "comma"))

    def finish(self) -> None:
        """No text follows: a number or word at the end is complete."""
        if self._literal and not self.done:
            self._end_literal()

    def _string(self, text: str, at: int, end: int) -> int:
        if self._escape:
            return self._escaped(text, at)
        match = _CHARACTERS.match(text, at, end)
        if match:
            return match.end()
        character = text[at]
        if character == '"':
            self._in_string = False
            self._value_ends()
        elif character == "\\":
            self._escape = 1
        elif self.valid:
            self.valid = False
            return at
        return at + 1

    def _escaped(self, text: str, at: int) -> int:
        character = text[at]
        if self._escape == 1:
            if character == "u":
                self._escape = 5
            else:
                self._escape = 0
                if character not in '"\\/bfnrt' and self.valid:
                    self.valid = False
            return at + 1
        if character not in _HEXADECIMAL:
            self._escape = 0
            self.valid = False
            return at
        self._escape = 0 if self._escape == 2 else self._escape - 1
        return at + 1

    def _structure(self, text: str, at: int, end: int) -> int:
        if self._literal:
            return self._more_literal(text, at, end)
        match = _TOKEN.match(text, at, end)
        if match is None:
            return self._mistake(at)
        token = match.group()
        first = token[0]
        if first in " \t\n\r":
            return match.end()
        if first == '"':
            if self._expected not in ("value", "item", "key", "first key"):
                return self._mistake(at)
            if len(token) > 1:
                self._value_ends()
            else:
                self._in_string = True
            return match.end()
        if first in "{}[]:,":
            return self._punctuation(first, at)
        if self._expected not in ("value", "item"):
            return self._mistake(at)
        self._literal = token
        return match.end()

    def _more_literal(self, text: str, at: int, end: int) -> int:
        match = _LITERAL_END.search(text, at, end)
        stop = match.start() if match else end
        self._literal += text[at:stop]
        if match:
            self._end_literal()
        return stop

    def _end_literal(self) -> None:
        self.valid = self.valid and _LITERAL.fullmatch(self._literal) is not None
        self._literal = ""
        self._value_ends()

    def _punctuation(self, character: str, at: int) -> int:
        expected = self._expected
        if character in "{[" and expected in ("value", "item"):
            self._open.append(character)
            self._expected = "first key" if character == "{" else "item"
        elif character in "}]" and self._open and _CLOSER[self._open[-1]] == character:
            if expected not in ("first key" if character == "}" else "item", "comma"):
                return self._mistake(at)
            self._open.pop()
            self._expected = "comma"
            self._value_ends()
        elif character == "," and expected == "comma":
            self._expected = "key" if self._open[-1] == "{" else "value"
        elif character == ":" and expected == "colon":
            self._expected = "value"
        else:
            return self._mistake(at)
        return at + 1

    def _value_ends(self) -> None:
        if not self._open:
            self.done = True
        elif self._open[-1] == "{" and self._expected in ("key", "first key"):
            self._expected = "colon"
        else:
            self._expected = "comma"

    def _mistake(self, at: int) -> int:
        self.valid = False
        self.done = not self._open
        return at

    def _brackets(self, text: str, at: int, end: int) -> int:
        match = _OUTSIDE.search(text, at, end)
        if match is None:
            return end
        character = match.group()
        if character == '"':
            self._in_string = True
        elif character in "{[":
            self._open.append(character)
        elif self._open:
            self._open.pop()
            self.done = not self._open
        return match.end()


def complete_json(text: str) -> str:
    """JSON text that begins as `text` does, less its unfinished end, with what is open closed.

    Unfinished strings are closed where they end; unfinished keys, escapes, words and numbers are left out.

    Raises:
        ValueError: `text` does not begin a JSON value, or no value has begun.
    """
    scanner = JsonScanner()
    safe, quote = 0, ""
    at = 0
    while at < len(text) and not scanner.done:
        before, literal = at, scanner.in_literal
        at = scanner.scan(text, at, at + 1)
        if literal and not scanner.in_literal:
            safe, quote = before, ""
        if not scanner.valid:
            raise ValueError(f"Not the beginning of a JSON value: {text[at : at + 1]!r} at position {at}.")
        if scanner.in_value_string:
            safe, quote = at, '"'
        elif scanner.between_values:
            safe, quote = at, ""
    if not safe:
        raise ValueError("No JSON value has begun.")
    return text[:safe] + quote + scanner.closers


def read_partial_json(text: str) -> Any:
    """The value of JSON text that may be cut off anywhere; see `complete_json`.

    Raises:
        ValueError: `text` does not begin a JSON value.
    """
    return json.loads(complete_json(text))
