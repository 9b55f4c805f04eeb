"""Turns a Python literal that arrives in pieces into JSON text."""

from __future__ import annotations

import re

from .typed_values import json_string

_SPACE = re.compile(r"\s+")
_WORD = re.compile(r"[-+.\w]+")
_WORD_END = re.compile(r"[^-+.\w]")
_PLAIN = {quote: re.compile(rf"[^\\{quote}]+") for quote in "'\""}
_NUMBER = re.compile(
    r"([-+]?)(?:0[xX]([0-9a-fA-F_]+)|([0-9][0-9_]*)|"
    r"([0-9][0-9_]*\.[0-9]*|\.[0-9]+|[0-9]+\.?[0-9]*[eE][-+]?[0-9]+|[0-9]*\.[0-9]+[eE][-+]?[0-9]+))"
)
_NAMES = {
    "True": "true",
    "False": "false",
    "None": "null",
    "true": "true",
    "false": "false",
    "null": "null",
}
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "a": "\a", "v": "\v", "0": "\0", "\n": ""}
_DIGITS = {"x": 2, "u": 4, "U": 8}
_CLOSER = {"{": "}", "[": "]", "(": ")"}


class PythonLiteral:
    """Converts one literal: a string, number, `True`, `False`, `None`, list, tuple or dict of such.

    Attributes:
        done: the literal is complete.
        valid: no mistake so far.
    """

    def __init__(self) -> None:
        self.done = False
        self.valid = True
        self._open: list[str] = []
        self._expected = "value"
        self._quote = ""
        self._escape = ""
        self._word = ""

    def convert(self, text: str, start: int) -> tuple[int, str]:
        """Reads from `text[start:]`.

        Returns:
            where it stopped (the end of the text or of the literal, or the first mistake) and the JSON text.
        """
        at = start
        out: list[str] = []
        while at < len(text) and self.valid and not self.done:
            if self._quote:
                at = self._string(text, at, out)
            elif self._word:
                at = self._more_word(text, at, out)
            else:
                at = self._structure(text, at, out)
        return at, "".join(out)

    def _string(self, text: str, at: int, out: list[str]) -> int:
        if self._escape:
            return self._escaped(text, at, out)
        match = _PLAIN[self._quote].match(text, at)
        if match:
            out.append(json_string(match.group()))
            return match.end()
        if text[at] == "\\":
            self._escape = "\\"
        else:
            self._quote = ""
            out.append('"')
            self._value_ends()
        return at + 1

    def _escaped(self, text: str, at: int, out: list[str]) -> int:
        self._escape += text[at]
        kind = self._escape[1]
        if kind in _DIGITS:
            if len(self._escape) == 2 + _DIGITS[kind]:
                out.append(json_string(_character(self._escape)))
                self._escape = ""
        else:
            out.append(json_string(_ESCAPES.get(kind, kind if kind in "\\'\"" else self._escape)))
            self._escape = ""
        return at + 1

    def _structure(self, text: str, at: int, out: list[str]) -> int:
        match = _SPACE.match(text, at)
        if match:
            return match.end()
        character = text[at]
        expected = self._expected
        takes_value = expected in ("value", "item", "key", "first key")
        if character in "'\"" and takes_value:
            self._quote = character
            out.append('"')
        elif character in _CLOSER and expected in ("value", "item"):
            self._open.append(character)
            self._expected = "first key" if character == "{" else "item"
            out.append("{" if character == "{" else "[")
        elif character in ")]}" and self._closes(character):
            self._open.pop()
            self._expected = "comma"
            out.append("}" if character == "}" else "]")
            self._value_ends()
        elif character == "," and expected == "comma":
            self._expected = "next key" if self._open[-1] == "{" else "next item"
        elif character == ":" and expected == "colon":
            self._expected = "value"
            out.append(": ")
        elif expected in ("next key", "next item") and character not in ",:)]}":
            self._expected = "key" if expected == "next key" else "value"
            out.append(", ")
            return at
        elif expected in ("value", "item") and _WORD.match(character):
            self._word = character
        else:
            self.valid = False
            return at
        return at + 1

    def _closes(self, character: str) -> bool:
        if not self._open or _CLOSER[self._open[-1]] != character:
            return False
        return self._expected in ("first key", "item", "comma", "next key", "next item")

    def _more_word(self, text: str, at: int, out: list[str]) -> int:
        match = _WORD_END.search(text, at)
        stop = match.start() if match else len(text)
        self._word += text[at:stop]
        if match:
            json = _word(self._word)
            self.valid = json is not None
            if not self.valid:
                return at
            out.append(json or "")
            self._word = ""
            self._value_ends()
        return stop

    def unread(self) -> str:
        """Text that was read and is not part of the JSON text yet."""
        return self._word + self._escape

    def _value_ends(self) -> None:
        if not self._open:
            self.done = True
        elif self._open[-1] == "{" and self._expected in ("key", "first key"):
            self._expected = "colon"
        else:
            self._expected = "comma"


def _word(word: str) -> str | None:
    """JSON text of a name or number."""
    if word in _NAMES:
        return _NAMES[word]
    match = _NUMBER.fullmatch(word)
    if match is None:
        return None
    sign, hexadecimal, integer, decimal = match.groups()
    sign = "-" if sign == "-" else ""
    if hexadecimal:
        return sign + str(int(hexadecimal.replace("_", ""), 16)) if len(hexadecimal) < 1000 else None
    if integer:
        return sign + (integer.replace("_", "").lstrip("0") or "0")
    mantissa, exponent, power = decimal.replace("_", "").lower().partition("e")
    whole, _, fraction = mantissa.partition(".")
    return f"{sign}{whole.lstrip('0') or '0'}.{fraction or '0'}{exponent}{power}"


def _character(escape: str) -> str:
    try:
        return chr(int(escape[2:], 16))
    except (ValueError, OverflowError):
        return escape
