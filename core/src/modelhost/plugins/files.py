"""The state of files, to tell whether they are still what was read from them before."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from typing import NamedTuple

STARTED_S = time.time()
"""When this process began to look at plugins. A module that is loaded may be older than a file that changed since."""
SETTLED_AFTER_S = 2.0
"""A file that changed less than this before it was read may change again without its time or size showing it."""


class FileState(NamedTuple):
    """What is known about a file without reading it.

    Attributes:
        path: of the file.
        mtime_ns: time of its last change in nanoseconds; 0 when there is no such file.
        size: in bytes; -1 when there is no such file.
    """

    path: str
    mtime_ns: int
    size: int


def state_of(path: str) -> FileState:
    """The state of ``path``, also when it does not exist."""
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return FileState(path, 0, -1)
    return FileState(path, found.st_mtime_ns, found.st_size)


def settled(states: Iterable[FileState], time_s: float) -> bool:
    """Whether what was read after ``time_s`` (seconds since the epoch) is what the states stand for."""
    limit = int((time_s - SETTLED_AFTER_S) * 1e9)
    return all(state.mtime_ns < limit for state in states)


class Files:
    """Looks at each file once."""

    def __init__(self, known: Iterable[FileState] = ()) -> None:
        self._states = {state.path: state for state in known}

    def state(self, path: str) -> FileState:
        """The state of ``path`` when it was first asked for."""
        state = self._states.get(path)
        if state is None:
            state = self._states[path] = state_of(path)
        return state

    def unchanged(self, states: Iterable[FileState]) -> bool:
        """Whether each file is still in its state."""
        return all(self.state(state.path) == state for state in states)
