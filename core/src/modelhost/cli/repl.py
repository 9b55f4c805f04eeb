"""Chat in the terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from difflib import get_close_matches
from typing import TYPE_CHECKING

from modelhost.api import ModelHostError

from .answering import answer
from .conversation import Conversation
from .main import INTERRUPTED
from .run import say_how_it_went
from .shown_answer import ShownAnswer
from .terminal import note

if TYPE_CHECKING:
    from modelhost.engine.model import ServedModel
    from modelhost.engine.sampling_params import SamplingParams

_HELP = """\
  /reset          forget the conversation
  /system [TEXT]  set the system message, or show it
  /help           show this text
  /exit           leave; so does Ctrl-D
A line that ends with a backslash goes on in the next one. Ctrl-C stops an answer; a second one leaves."""


class _Leave(Exception):
    """The user wants to leave."""


class Repl:
    """Reads messages and commands until the user leaves."""

    def __init__(
        self, served: ServedModel, conversation: Conversation, params: SamplingParams, *, timings: bool = False
    ) -> None:
        self.served = served
        self.conversation = conversation
        self.params = params
        self.timings = timings
        self._interrupted = False
        self._commands: dict[str, Callable[[str], None]] = {
            "/help": lambda _: note(_HELP),
            "/reset": self._reset,
            "/system": self._system,
            "/exit": self._exit,
        }

    def run(self) -> int:
        """Go on until the user leaves.

        Returns:
            the exit code: 0, or 130 after Ctrl-C.
        """
        with suppress(ImportError):
            import readline  # noqa: F401 - gives input() line editing and a history
        note("/help lists the commands, /exit leaves")
        while True:
            try:
                text = self._read()
            except (EOFError, _Leave):
                return 0
            except KeyboardInterrupt:
                note("")
                if self._interrupted:
                    return INTERRUPTED
                self._interrupted = True
                note("(Ctrl-C again, /exit or Ctrl-D to leave)")
                continue
            self._interrupted = False
            if text.strip():
                self._answer(text)

    def _read(self) -> str:
        """The next message, of one line or more; empty after a command."""
        lines = [_input(">>> ")]
        if lines[0].startswith("/"):
            self._command(lines[0])
            return ""
        while lines[-1].endswith("\\"):
            lines[-1] = lines[-1][:-1]
            lines.append(_input("... "))
        return "\n".join(lines)

    def _answer(self, text: str) -> None:
        try:
            shown = ShownAnswer(chat=self.conversation.chat)
            result = answer(self.served, self.conversation.request(text, self.params), shown.show)
        except ModelHostError as error:
            note(f"error: {error}")
            if self.conversation.messages:
                note("/reset forgets the conversation")
            return
        shown.end()
        say_how_it_went(result, self.served, timings=self.timings)
        self._interrupted = result.finish_reason is None
        self.conversation.add(text, result.output)

    def _command(self, line: str) -> None:
        name, _, argument = line.strip().partition(" ")
        command = self._commands.get(name)
        if command is not None:
            command(argument.strip())
            return
        close = get_close_matches(name, self._commands, 1, 0.5)
        note(f"there is no command {name}. " + (f"Did you mean {close[0]}?" if close else "/help lists the commands."))

    def _reset(self, _: str) -> None:
        self.conversation.reset()
        note("the conversation is forgotten")

    def _system(self, text: str) -> None:
        if not self.conversation.chat:
            note("there is no chat template, so there is no system message")
            return
        if text:
            self.conversation.system = text
        note(f"system message: {self.conversation.system or '(none)'}")

    def _exit(self, _: str) -> None:
        raise _Leave


def _input(prompt: str) -> str:
    """A line from the user. The prompt goes to standard error unless both ends are terminals."""
    if sys.stdout.isatty():
        return input(prompt)
    sys.stderr.write(prompt)
    sys.stderr.flush()
    return input()
