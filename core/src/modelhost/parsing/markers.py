"""Finds fixed markers in text that arrives in pieces."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache


class Markers:
    """A set of texts to look for. Where several begin at one place the longest wins."""

    def __init__(self, texts: Iterable[str]) -> None:
        compiled = _compiled(frozenset(texts))
        self.texts = compiled.texts
        self._pattern = compiled.pattern
        self._first = compiled.first
        self._beginnings = compiled.beginnings
        self._longest = max(map(len, self.texts), default=0)
        self._may_grow = compiled.may_grow

    def find(self, text: str, start: int, final: bool) -> tuple[int, str | None]:
        """The first marker at or after `start`.

        Args:
            final: no text will follow.

        Returns:
            its place and itself; without one, None and the place up to which the text is certainly not part of one.
        """
        first = self._first.search(text, start)
        if first is None:
            return len(text), None
        match = self._pattern.search(text, first.start())
        if match is None:
            return (len(text) if final else self._unfinished(text, first.start())), None
        if self._may_grow and not final:
            unfinished = self._unfinished(text, start)
            if unfinished <= match.start():
                return unfinished, None
        return match.start(), match.group()

    def at(self, text: str, start: int, final: bool) -> tuple[bool, str | None]:
        """Whether a marker stands exactly at `start`: `(decided, marker)`; undecided while more text could make one."""
        match = self._pattern.match(text, start)
        growing = not final and text[start : start + self._longest] in self._beginnings
        if match is not None and not (growing and self._may_grow):
            return True, match.group()
        return not growing, None

    def _unfinished(self, text: str, start: int) -> int:
        """Where the longest end of `text` that begins a marker starts; the length of `text` if there is none."""
        length = len(text)
        if length - start < self._longest and text[start:] in self._beginnings:
            return start
        for match in self._first.finditer(text, max(start + 1, length - self._longest + 1)):
            if text[match.start() :] in self._beginnings:
                return match.start()
        return length


@dataclass(frozen=True, slots=True)
class _Compiled:
    """What is looked up in, the same for all parsers of a format.

    Attributes:
        texts: the longest first.
        pattern: any of them.
        first: the first character of any.
        beginnings: their beginnings, themselves left out.
        may_grow: one begins or lies within another: a match is certain only when no longer one can still form.
    """

    texts: tuple[str, ...]
    pattern: re.Pattern[str]
    first: re.Pattern[str]
    beginnings: frozenset[str]
    may_grow: bool


@lru_cache(maxsize=1024)
def _compiled(texts: frozenset[str]) -> _Compiled:
    ordered = sorted(sorted(texts - {""}), key=len, reverse=True)
    first = "".join(sorted({text[0] for text in ordered}))
    return _Compiled(
        tuple(ordered),
        re.compile("|".join(map(re.escape, ordered)) or r"(?!)"),
        re.compile(f"[{re.escape(first)}]" if first else r"(?!)"),
        frozenset(text[:length] for text in ordered for length in range(1, len(text))),
        any(a != b and a in b for a in ordered for b in ordered),
    )
