"""How an answer looks: reasoning dimmed, calls of tools one a line."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from modelhost.parsing.events import CallArguments, CallEnd, CallStart, Content, Event, Reasoning

from .terminal import note, write_answer

if TYPE_CHECKING:
    from modelhost.engine.outputs import CompletionOutput

_DIM, _NORMAL = "\x1b[2m", "\x1b[22m"


class ShownAnswer:
    """Shows one answer on standard output as it comes.

    Reasoning is shown on a terminal only: what is piped on is the answer.

    Args:
        chat: the answer is read by parsers; otherwise its text is shown as it is.
    """

    def __init__(self, *, chat: bool) -> None:
        self._chat = chat
        self._terminal = sys.stdout.isatty()
        self._line_begun = False
        self._kind: type[Event] = Content
        self._wrote = False
        self._hid_reasoning = False

    def show(self, output: CompletionOutput) -> None:
        """Show what is new in ``output``."""
        if not self._chat:
            self._write(output.delta)
            return
        for event in output.events:
            self._show_event(event)

    def end(self) -> None:
        """End the last line."""
        if self._hid_reasoning and not self._wrote:
            note("[the answer ended within the reasoning, which is shown on a terminal only]")
        if self._line_begun or not self._wrote:
            self._write("\n")

    def _show_event(self, event: Event) -> None:
        match event:
            case Content(text):
                self._enter(Content)
                self._write(text)
            case Reasoning(text) if self._terminal:
                self._enter(Reasoning)
                self._write(text, dim=True)
            case Reasoning():
                self._hid_reasoning = True
            case CallStart(_, name):
                self._enter(CallStart)
                self._write(f"[tool call] {name}(")
            case CallArguments(_, text):
                self._write(text)
            case CallEnd():
                self._write(")\n")

    def _enter(self, kind: type[Event]) -> None:
        """Reasoning, content and each call begin on a line of their own."""
        if self._line_begun and (kind is not self._kind or kind is CallStart):
            self._write("\n")
        self._kind = kind

    def _write(self, text: str, *, dim: bool = False) -> None:
        if not text:
            return
        self._wrote = True
        self._line_begun = not text.endswith("\n")
        if dim:
            sys.stdout.write(_DIM)
        write_answer(text)
        if dim:
            sys.stdout.write(_NORMAL)
            sys.stdout.flush()
