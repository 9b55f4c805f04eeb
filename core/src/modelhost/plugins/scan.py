"""Which distributions are installed, looked up without reading their metadata."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.machinery import PathFinder

from .files import FileState, state_of

_SUFFIXES = ("dist-info", "egg-info")


@dataclass(frozen=True, slots=True)
class Scan:
    """The metadata directories on a search path.

    Attributes:
        directories: those on the path that hold any.
        entry_points: state of ``entry_points.txt`` in each metadata directory, in the order of the path.
        complete: whether nothing else (archives, finders of other tools) can hold distributions.
    """

    directories: tuple[str, ...]
    entry_points: tuple[FileState, ...]
    complete: bool


def scan(path: Sequence[str] | None = None) -> Scan:
    """Look through the directories of ``path``; ``sys.path`` when ``None``."""
    directories: list[str] = []
    states: list[FileState] = []
    complete = path is not None or not any(_finds_distributions(finder) for finder in sys.meta_path)
    for entry in dict.fromkeys(sys.path if path is None else path):
        directory = os.path.abspath(entry or os.curdir)
        try:
            names = sorted(os.listdir(directory))
        except NotADirectoryError:
            complete = False
            continue
        except OSError:
            continue
        found = list(_states(directory, names))
        states += found
        directories += [directory] if found else []
    return Scan(tuple(directories), tuple(states), complete)


def _states(directory: str, names: list[str]) -> Iterator[FileState]:
    for name in names:
        if name.lower().endswith(_SUFFIXES):
            yield state_of(os.path.join(directory, name, "entry_points.txt"))


def _finds_distributions(finder: object) -> bool:
    return finder is not PathFinder and hasattr(finder, "find_distributions")
