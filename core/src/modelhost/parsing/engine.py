"""The loop that incremental parsers share: a buffer, a place in it and a state."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

from .events import CallArguments, CallEnd, CallStart, Content, Event, Reasoning, merge
from .markers import Markers

_SPACE = re.compile(r"\s*")


class Engine:
    """Base of parsers that are state machines over text.

    A state is a method that consumes text at `self.at`, may set `self.state`, and returns False when it needs more
    text than there is. It must consume what it can: text stays in the buffer only while it may become a marker.

    Attributes:
        buffer, at: the text that is not consumed yet begins at `buffer[at]`.
        final: no text will follow; states then decide with what they have.
        examined: characters that have been offered to states, each feed counted. It stays proportional to the input.
    """

    def __init__(self) -> None:
        self.buffer = ""
        self.at = 0
        self.final = False
        self.examined = 0
        self.state: Callable[[], bool] = self.start
        self._events: list[Event] = []

    def start(self) -> bool:
        """The first state."""
        raise NotImplementedError

    def close(self) -> None:
        """Reports what is held when the output ends. The buffer is empty or holds what no state consumed."""

    def feed(self, text: str, token_ids: Sequence[int] = ()) -> list[Event]:
        self.buffer = text if self.at == len(self.buffer) else self.buffer[self.at :] + text
        self.at = 0
        self._run()
        return self._reported()

    def finish(self) -> list[Event]:
        self.final = True
        self._run()
        self.close()
        return self._reported()

    def report(self, event: Event) -> None:
        self._events.append(event)

    def take(self, end: int) -> str:
        """Consumes the text up to `end`."""
        text = self.buffer[self.at : end]
        self.at = end
        return text

    def rest(self) -> str:
        """Consumes all text."""
        return self.take(len(self.buffer))

    def skip_space(self) -> str:
        """Consumes and returns white space."""
        match = _SPACE.match(self.buffer, self.at)
        return self.take(match.end()) if match else ""

    def _run(self) -> None:
        length = len(self.buffer)
        self.examined += length
        while self.at < length and self.state():
            pass

    def _reported(self) -> list[Event]:
        events = self._events
        if not events:
            return []
        self._events = []
        return merge(events) if len(events) > 1 else events


class ReasoningEngine(Engine):
    """Base of parsers that separate reasoning from the answer."""

    def content(self, text: str) -> None:
        if text:
            self.report(Content(text))

    def reasoning(self, text: str) -> None:
        if text:
            self.report(Reasoning(text))


class ToolEngine(Engine):
    """Base of parsers of tool calls.

    It keeps one rule about text for all formats: text is never lost, and white space that only separates calls from
    each other, or from the start or the end of the output, is not content.

    Args:
        strip: also remove white space between text and calls; texts before and after calls are joined by a newline.
        separators: further characters that only separate calls, such as `;`.
    """

    def __init__(self, *, strip: bool = False, separators: str = "") -> None:
        super().__init__()
        self.calls = 0
        self.open_call: int | None = None
        self._strip = strip
        self._separator = re.compile(rf"[\s{re.escape(separators)}]*")
        self._leading = True  # only white space since the start or the last call
        self._texts = 0
        self._space: list[str] = []

    def content(self, text: str) -> None:
        """Reports text of the answer, or holds white space that may turn out to separate calls."""
        if self._leading:
            pattern = self._separator if self.calls else _SPACE
            match = pattern.match(text)
            end = match.end() if match else 0
            self._space.append(text[:end])
            text = text[end:]
            if not text:
                return
            self._begin_text()
        if not self._strip and self.open_call is None:
            self._report_content(text)
            return
        kept = text.rstrip()
        if kept:
            self._report_content("".join([*self._space, kept]))
            self._space = []
        self._space.append(text[len(kept) :])

    def begin_call(self, name: str, id: str | None = None) -> None:
        """Reports the start of a call."""
        self._space = []
        self._leading = True
        self.open_call = self.calls
        self.calls += 1
        self.report(CallStart(self.open_call, name, id))

    def arguments(self, text: str) -> None:
        """Reports text of the open call's arguments."""
        if text and self.open_call is not None:
            self.report(CallArguments(self.open_call, text))

    def end_call(self) -> None:
        """Reports the end of the open call, if there is one."""
        if self.open_call is not None:
            self.report(CallEnd(self.open_call))
            self.open_call = None
            self._leading = True
            self._space = []

    def drop_space(self) -> None:
        """Forgets white space since the last call: what follows it shows that it is part of the markup."""
        if self._leading or self.open_call is not None:
            self._space = []

    def pass_on(self, events: Iterable[Event]) -> None:
        """Reports what a parser within this one has found."""
        for event in events:
            match event:
                case CallArguments() if event.index == self.open_call:
                    self._events.append(event)
                case CallArguments():
                    self.arguments(event.text)
                case CallStart():
                    self.begin_call(event.name, event.id)
                case CallEnd():
                    self.end_call()
                case Content():
                    self.content(event.text)
                case Reasoning():
                    self._events.append(event)

    def finish(self) -> list[Event]:
        self.final = True
        self._run()
        self.close()
        self.content(self.rest())
        self.end_call()
        if not self.calls:
            self._report_content("".join(self._space))
        return self._reported()

    def _begin_text(self) -> None:
        self._leading = False
        if not self.calls or not (self._strip or self.open_call is not None):
            self._report_content("".join(self._space))
        elif self._texts:
            self._report_content("\n")
        self._space = []
        self._texts += 1

    def _report_content(self, text: str) -> None:
        if text:
            self.report(Content(text))


class MarkedText:
    """Markers that a state looks for, with the text before them."""

    def __init__(self, *texts: str) -> None:
        self.markers = Markers(texts)
        self._find = self.markers.find

    def read(self, engine: Engine, *, in_markup: bool = False) -> tuple[str, str | None]:
        """Consumes `(text before, marker)`; the marker is None when none is complete yet.

        Args:
            in_markup: where only a marker can be meant, an unfinished one at the end of the output is left out.
        """
        buffer, at = engine.buffer, engine.at
        end, marker = self._find(buffer, at, engine.final and not in_markup)
        if marker is not None:
            engine.at = end + len(marker)
        else:
            engine.at = len(buffer) if engine.final else end
        return buffer[at:end], marker
