"""Text of an answer without the marks of citations."""

from __future__ import annotations

import re

from modelhost.api.parsing import MarkedText, ParserContext, ReasoningEngine

_SOURCES = re.compile(r"[\d:,\[\] ]*")


class Citations(ReasoningEngine):
    """Parser of an answer. `<co>cited text</co: 0:[1,2]>` becomes the cited text; white space at the end is left out.

    The numbers are those of the tool results that the text rests on.
    """

    def __init__(self, context: ParserContext) -> None:
        super().__init__()
        self._marks = MarkedText("<co>", "<co: ", "</co: ")
        self._space: list[str] = []
        self._mark: list[str] = []

    def start(self) -> bool:
        """In text."""
        text, mark = self._marks.read(self)
        self._text(text)
        if mark is None:
            return False
        if mark != "<co>":
            self._mark = [mark]
            self.state = self._sources
        return True

    def _sources(self) -> bool:
        """In a mark, before its end."""
        match = _SOURCES.match(self.buffer, self.at)
        self._mark.append(self.take(match.end()) if match else "")
        if self.at == len(self.buffer):
            return False
        if self.buffer[self.at] == ">":
            self.at += 1
            self._mark = []
        else:
            self.close()
        self.state = self.start
        return True

    def _text(self, text: str) -> None:
        kept = text.rstrip()
        if kept:
            self.content("".join([*self._space, kept]))
            self._space = []
        self._space.append(text[len(kept) :])

    def close(self) -> None:
        mark, self._mark = "".join(self._mark), []
        self._text(mark)
