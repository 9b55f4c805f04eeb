"""Reads answers that a response template divides into regions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import regex

from modelhost.api.parsing import Adjustment, ParserContext, Reasoning, ToolChoice, ToolEngine

from .calls import calls_in
from .template import Delimiter, Field, ResponseTemplate, response_template

_CONTEXT = 64  # characters before a place that a pattern may look back at


@dataclass(frozen=True)
class TemplateFormat:
    """Format that the checkpoint's response template describes. One parser finds reasoning and calls.

    A call is reported when its region has ended, since only then its text can be read. A region that cannot be read is
    content, with its delimiters. What stands outside all regions is left out if the template says so. Text that a
    pattern of the template may match when more follows waits, and is searched again with each piece.

    No forced tool choice: a template says how calls are read, not how they are written.

    Attributes:
        reads_calls: calls are looked for; else their regions are content.
    """

    reads_calls: bool = True
    handles_reasoning: bool = True

    def __call__(self, context: ParserContext) -> TemplateParser:
        return TemplateParser(response_template(context.response_template), context, reads_calls=self.reads_calls)

    def adjust_request(self, context: ParserContext, choice: ToolChoice) -> Adjustment:
        """Delimiters are special tokens."""
        return Adjustment(keep_special_tokens=True)


@dataclass(slots=True)
class _Region:
    """The part of the answer that text belongs to."""

    field: Field
    opening: str = ""
    captures: Mapping[str, str] = field(default_factory=dict)
    text: list[str] = field(default_factory=list)


class TemplateParser(ToolEngine):
    """Parser of the format `TemplateFormat`."""

    def __init__(self, template: ResponseTemplate, context: ParserContext, *, reads_calls: bool) -> None:
        super().__init__()
        self._context = context
        self._reads_calls = reads_calls
        self._template = template
        self._watched = template.outside
        self._before = ""  # the last characters before `self.at`
        self._consumed = 0
        self._empty_at = -1  # where the last delimiter without characters was
        self._region: _Region | None = None
        begun = template.beginning(context.prompt)
        self._prompt = len(begun)
        self.feed(begun)

    def start(self) -> bool:
        """In a region, or outside all."""
        found = self._find()
        if found is None:
            return False
        one, match, is_opening = found
        place = self.at - len(self._before)  # of what was searched
        self._take(place + match.start())
        self._skip(place + match.end())
        if match.start() == match.end():
            self._empty_at = self._consumed
        self._end_region("" if is_opening else match.group())
        if is_opening:
            captures = {key: value for key, value in match.groupdict().items() if value is not None}
            self._region = _Region(one, match.group(), captures)
            self._watched = self._template.within[one.name]
        return True

    def _find(self) -> tuple[Field, regex.Match[str], bool] | None:
        """The next delimiter that is certain. Without one, text that is certainly not part of one is taken."""
        text = self._before + self.buffer[self.at :]
        place = self.at - len(self._before)
        certain = self._none_before(text)
        if certain is not None:
            self._take(place + certain)
            return None
        held = len(text)
        best: tuple[Field, regex.Match[str], bool] | None = None
        for one, delimiter, is_opening in self._watched.delimiters:
            match = self._match(delimiter, text)
            if match is None:
                continue
            if not self.final and (match.partial or _may_change(match, delimiter, len(text))):
                held = min(held, match.start())
            elif best is None or _earlier(match, best[1]):
                best = one, match, is_opening
        if best is None or best[1].start() >= held:
            self._take(place + held)
            return None
        return best

    def _none_before(self, text: str) -> int | None:
        """The place up to which no delimiter can begin, unless one may be complete."""
        pattern = self._watched.any
        if pattern is None or self.final:
            return None
        match = pattern.search(text, len(self._before), partial=True)
        if match is None:
            return len(text)
        return match.start() if match.partial else None

    def _match(self, delimiter: Delimiter, text: str) -> regex.Match[str] | None:
        """A place is taken once for a delimiter that is empty."""
        start = len(self._before)
        match = delimiter.pattern.search(text, start, partial=not self.final)
        if match is not None and match.start() == match.end() == start and self._empty_at == self._consumed:
            match = delimiter.pattern.search(text, start + 1, partial=not self.final)
        return match

    def _take(self, end: int) -> None:
        """Consumes text up to `end` as the region's."""
        text = self.buffer[self.at : end]
        new = text[max(0, self._prompt - self._consumed) :]
        self._skip(end)
        self._text(text, new)

    def _skip(self, end: int) -> None:
        self._before = (self._before + self.buffer[self.at : end])[-_CONTEXT:]
        self._consumed += end - self.at
        self.at = end

    def _text(self, text: str, new: str) -> None:
        """`new` is what of the text is not of the prompt."""
        if self._region is None and self._template.rest is not None and text:
            self._region = _Region(self._template.rest)
        if self._region is None:
            return
        if self._region.field.kind == "calls":
            self._region.text.append(text)
        elif self._region.field.kind == "content":
            self.content(new)
        elif new:
            self.report(Reasoning(new))

    def _end_region(self, closing: str) -> None:
        region, self._region = self._region, None
        self._watched = self._template.outside
        if region is None or region.field.kind != "calls" or self._consumed <= self._prompt:
            return
        text = "".join(region.text)
        calls = calls_in(region.field, text, region.captures, self._context) if self._reads_calls else []
        if not calls:
            self.content(region.opening + text + closing)
        for name, arguments in calls:
            self.begin_call(name)
            self.arguments(arguments)
            self.end_call()

    def close(self) -> None:
        self._end_region("")


def _may_change(match: regex.Match[str], delimiter: Delimiter, end: int) -> bool:
    """A complete match that more text may make longer, or undo."""
    return match.end() == end and (match.start() == match.end() or not delimiter.fixed)


def _earlier(match: regex.Match[str], other: regex.Match[str]) -> bool:
    return (match.start(), -match.end()) < (other.start(), -other.end())
