"""Runs code that may never return."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Generic, TypeVar

T = TypeVar("T")


class TimeLimitExceeded(Exception):
    """The code did not return in time.

    Attributes:
        frames: ``(frame, line)`` of where it was, innermost first.
    """

    def __init__(self, frames: list[tuple[FrameType, int]]) -> None:
        super().__init__("time limit exceeded")
        self.frames = frames


def run_limited(function: Callable[[], T], seconds: float) -> T:
    """What ``function`` returns, or raises.

    It runs in a thread of its own. One that is late is told to stop: Python code does so at its next instruction; a
    call into the system that never returns goes on in the background until the process ends, which it does not delay.

    Raises:
        TimeLimitExceeded: it took longer than ``seconds``.
    """
    outcome = _Outcome(function)
    thread = threading.Thread(target=outcome.run, name="modelhost-declare", daemon=True)
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        frames = list(_frames(thread))
        _stop(thread)
        raise TimeLimitExceeded(frames)
    return outcome.result()


class _Outcome(Generic[T]):
    """What a function returned or raised."""

    def __init__(self, function: Callable[[], T]) -> None:
        self._function = function
        self._values: list[T] = []
        self._error: BaseException | None = None

    def run(self) -> None:
        try:
            self._values.append(self._function())
        except BaseException as error:
            self._error = error

    def result(self) -> T:
        if self._error is not None:
            raise self._error
        return self._values[0]


def _frames(thread: threading.Thread) -> Iterator[tuple[FrameType, int]]:
    frame = sys._current_frames().get(thread.ident or 0)
    while frame is not None:
        yield frame, frame.f_lineno
        frame = frame.f_back


def _stop(thread: threading.Thread) -> None:
    """Raise SystemExit in ``thread``. CPython only; elsewhere the thread goes on."""
    if sys.implementation.name != "cpython":
        return
    import ctypes

    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident or 0), ctypes.py_object(SystemExit))
