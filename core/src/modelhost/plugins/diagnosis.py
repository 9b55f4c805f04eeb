"""Says what went wrong in a plugin's code: the cause, the file and line, and the command that mends it."""

from __future__ import annotations

import difflib
import traceback
from collections.abc import Iterable
from types import FrameType

from .info import CORE

REPORTABLE = (Exception, SystemExit)
"""What a plugin's code may raise without taking the host down. KeyboardInterrupt is the user's, not the plugin's."""


_HOST = {"modelhost", "importlib", "pluggy", "threading"}
"""Packages whose frames are not a plugin's."""


def cause(error: BaseException, module: str) -> str:
    """One sentence for what ``error``, raised by code of the plugin that owns ``module``, means."""
    if isinstance(error, ModuleNotFoundError) and error.name:
        if _package(error.name) == _package(module):
            return f"its own module {error.name!r} is missing from the installation"
        return f"it needs the module {error.name!r}, which is not installed"
    text = str(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def where(error: BaseException, module: str) -> str | None:
    """``"file:line"`` of the deepest frame inside the plugin's package, else of the deepest frame that has a file."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno}"
    return position(traceback.walk_tb(error.__traceback__), module)


def position(walk: Iterable[tuple[FrameType, int]], module: str) -> str | None:
    """``"file:line"`` as :func:`where` has it, of ``(frame, line)`` pairs that begin with the outermost."""
    frames = [
        (frame.f_globals.get("__name__", ""), f"{frame.f_code.co_filename}:{line}")
        for frame, line in walk
        if not frame.f_code.co_filename.startswith("<frozen")
    ]
    own = [place for name, place in frames if _package(name) == _package(module)]
    outside = [place for name, place in frames if _package(name) not in _HOST]
    return next(reversed(own or outside), None)


def removal(distribution: str) -> str:
    """The command that gets a broken plugin out of the way."""
    if distribution == CORE:
        return f"Reinstall it with: pip install --force-reinstall {CORE}"
    return f"Remove it with: pip uninstall {distribution}"


def broken(owner: str, distribution: str, reason: str, position: str | None) -> str:
    """The sentence for a plugin that is selected or listed and broken."""
    return f"{owner} is broken: {reason}{f' ({position})' if position else ''}. {removal(distribution)}"


def closest(name: str, known: Iterable[str], count: int = 3) -> list[str]:
    """The ``count`` names most like ``name``, best first, whatever their case."""
    by_lower: dict[str, str] = {candidate.lower(): candidate for candidate in sorted(known, reverse=True)}
    return [by_lower[match] for match in difflib.get_close_matches(name.lower(), by_lower, n=count, cutoff=0.0)]


def _package(module: str) -> str:
    return module.partition(".")[0]
