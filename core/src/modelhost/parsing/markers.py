"""Finds fixed markers in text that arrives in pieces."""

from __future__ import annotations

import re
from collections.abc import Iterable


class Markers:
    """A set of texts to look for. Where several begin at one place the longest wins."""

    def __init__(self, texts: Iterable[str]) -> None:
        ordered = sorted({text for text in texts if text}, key=len, reverse=True)
        self.texts = tuple(ordered)
        self._pattern = re.compile("|".join(map(re.escape, ordered)) or r"(?!)")
        first = "".join(sorted({text[0] for text in ordered}))
        self._first = re.compile(f"[{re.escape(first)}]" if first else r"(?!)")
        self._beginnings = frozenset(text[:length] for text in ordered for length in range(1, len(text)))
        self._longest = max(map(len, ordered), default=0)
        # One marker may begin or lie within another: then a match is certain only when no longer one can still form.
        self._may_grow = any(a != b and a in b for a in ordered for b in ordered)

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
            return (len(text) if final else self._unfinished(text, start)), None
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
        for match in self._first.finditer(text, max(start, len(text) - self._longest + 1)):
            if text[match.start() :] in self._beginnings:
                return match.start()
        return len(text)
