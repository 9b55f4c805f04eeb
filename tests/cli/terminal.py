"""A pseudo-terminal to try interactive commands in."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import select
import subprocess
import termios
import time
from types import TracebackType
from typing import Self

from .conftest import command, environment

_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]|\x1b[=>]|\r")


class Terminal:
    """A command that runs in a terminal of its own.

    Attributes:
        screen: all that it printed, without escape sequences.
    """

    def __init__(self, *arguments: str) -> None:
        self.screen = ""
        self._seen = 0
        self._main, child = pty.openpty()
        termios.tcsetwinsize(child, (40, 200))
        self.process = subprocess.Popen(
            command(*arguments),
            stdin=child,
            stdout=child,
            stderr=child,
            env=environment(),
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        os.close(child)

    def send(self, text: str) -> None:
        """Type ``text``."""
        os.write(self._main, text.encode())

    def interrupt(self) -> None:
        """Press Ctrl-C, no sooner than a person would: readline misses a signal at the moment it shows its prompt."""
        time.sleep(0.2)
        self.send("\x03")

    def expect(self, text: str, seconds: float = 20) -> str:
        """Wait until ``text`` is printed after what was expected before; returns what came in between."""
        deadline = time.monotonic() + seconds
        while text not in self.screen[self._seen :]:
            if time.monotonic() > deadline or not self._read(deadline):
                raise AssertionError(f"{text!r} was not printed, but {self.screen[self._seen :]!r}")
        start, self._seen = self._seen, self.screen.index(text, self._seen) + len(text)
        return self.screen[start : self._seen - len(text)]

    def exit_code(self, seconds: float = 20) -> int:
        """Wait for the end; what is still printed is read."""
        deadline = time.monotonic() + seconds
        while self._read(deadline):
            pass
        return self.process.wait(max(0.1, deadline - time.monotonic()))

    def _read(self, deadline: float) -> bool:
        if not select.select([self._main], [], [], max(0, deadline - time.monotonic()))[0]:
            return False
        with contextlib.suppress(OSError):  # the other end is closed
            data = os.read(self._main, 65536)
            self.screen += _ESCAPES.sub("", data.decode(errors="replace"))
            return bool(data)
        return False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._main)
