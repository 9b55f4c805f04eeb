"""Reasoning between a pair of markers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from .context import ParserContext
from .engine import MarkedText, ReasoningEngine

Switch = Callable[[Mapping[str, Any]], bool | None]
"""From the chat template's options: whether the model reasons; None when they do not say."""


@dataclass(frozen=True, kw_only=True)
class ReasoningTags:
    """Format of reasoning that stands before the answer, between `start` and `end`.

    The prompt is looked at first: where it ends with a start marker the output begins with reasoning, where it ends
    with an end marker it begins with the answer. Otherwise `begins` says which.

    Attributes:
        start, end: the markers; of several, any counts. Text before the first start marker belongs to what `begins`
            says, and so do second start markers' surroundings: the markers themselves are left out.
        begins: what the output begins with: reasoning (an output without any marker is reasoning) or the answer.
        also_ended_by: markers that end reasoning and belong to the answer, such as those of calls.
        switch: by the template's options; False makes the whole output the answer, markers included; True makes it
            begin with reasoning.
        drop_stray: an end marker within the answer is left out.
        around_answer: texts around the answer that are left out of it, such as `<answer>`.
        keep_start: the start marker is part of the reasoning.
        strip_reasoning: which white space at the end of the reasoning is left out: none, one newline, or all.
        strip_reasoning_start, strip_content: the same at the start of the reasoning and of the answer after reasoning;
            of the answer also all newlines.
    """

    start: tuple[str, ...]
    end: tuple[str, ...]
    begins: Literal["reasoning", "content"] = "reasoning"
    also_ended_by: tuple[str, ...] = ()
    switch: Switch | None = None
    drop_stray: bool = False
    around_answer: tuple[str, ...] = ()
    keep_start: bool = False
    strip_reasoning: Literal["nothing", "newline", "space"] = "nothing"
    strip_reasoning_start: Literal["nothing", "newline", "space"] = "nothing"
    strip_content: Literal["nothing", "newline", "newlines", "space"] = "nothing"

    def __call__(self, context: ParserContext) -> ReasoningTagsParser:
        return ReasoningTagsParser(self, self._beginning(context))

    def _beginning(self, context: ParserContext) -> Literal["reasoning", "content", "answer", "off"]:
        switched = self.switch(context.template_options) if self.switch else None
        if switched is False:
            return "off"
        prompt = context.prompt.rstrip()
        if prompt.endswith(tuple(marker.rstrip() for marker in self.end)):
            return "answer"
        if switched or prompt.endswith(tuple(marker.rstrip() for marker in self.start)):
            return "reasoning"
        return self.begins


class ReasoningTagsParser(ReasoningEngine):
    """Parser of the format `ReasoningTags`."""

    def __init__(self, form: ReasoningTags, beginning: Literal["reasoning", "content", "answer", "off"]) -> None:
        super().__init__()
        self._form = form
        self._in_reasoning = MarkedText(*form.start, *form.end, *form.also_ended_by)
        strays = (*(form.end if form.drop_stray else ()), *form.around_answer)
        self._in_answer = MarkedText(*strays)
        self._before_reasoning = MarkedText(*form.start, *strays)
        self._tail = ""
        self._cut = "nothing"  # what is still to be left out at the start of the current text
        self.state = {
            "reasoning": self._reason,
            "content": self._undecided,
            "answer": self._answer,
            "off": self._off,
        }[beginning]
        if beginning == "reasoning":
            self._cut = form.strip_reasoning_start
        elif beginning == "answer":
            self._cut = form.strip_content

    def _off(self) -> bool:
        self.content(self.rest())
        return False

    def _undecided(self) -> bool:
        """In text that reasoning may still follow."""
        text, marker = self._before_reasoning.read(self)
        self.content(text)
        if marker is None:
            return False
        if marker in self._form.start:
            self._enter(marker)
        return True

    def _enter(self, marker: str) -> None:
        if self._form.keep_start:
            self.reasoning(marker)
        self._cut = self._form.strip_reasoning_start
        self.state = self._reason

    def _reason(self) -> bool:
        text, marker = self._in_reasoning.read(self)
        self._reasoned(text)
        if marker is None:
            return False
        if marker in self._form.start:
            if self._form.keep_start:
                self._reasoned(marker)
            return True
        self._tail = ""
        if marker in self._form.also_ended_by:
            self.at -= len(marker)
        else:
            self._cut = self._form.strip_content
        self.state = self._answer
        return True

    def _reasoned(self, text: str) -> None:
        text = self._tail + self._without_start(text)
        kept = text
        if self._form.strip_reasoning == "newline":
            kept = text.removesuffix("\n")
        elif self._form.strip_reasoning == "space":
            kept = text.rstrip()
        self._tail = text[len(kept) :]
        self.reasoning(kept)

    def _without_start(self, text: str) -> str:
        if not text or self._cut == "nothing":
            return text
        if self._cut == "newline":
            kept = text.removeprefix("\n")
        else:
            kept = text.lstrip("\n" if self._cut == "newlines" else None)
        if kept or self._cut == "newline":
            self._cut = "nothing"
        return kept

    def _answer(self) -> bool:
        text, marker = self._in_answer.read(self)
        self.content(self._without_start(text))
        return marker is not None

    def close(self) -> None:
        if self.state == self._reason and self._form.strip_reasoning != "space":
            self.reasoning(self._tail)
