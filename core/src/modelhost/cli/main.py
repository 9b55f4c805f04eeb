"""The entry point of the ``modelhost`` script. It imports nothing but what the chosen command needs."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from .commands import COMMANDS, SUBCOMMANDS, help_text, unknown_command

INTERRUPTED = 130
"""Exit code after Ctrl-C: 128 + SIGINT."""
BROKEN_PIPE = 141
"""Exit code when the reader of standard output has gone: 128 + SIGPIPE."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line.

    Args:
        arguments: without the program's name; those of the process when ``None``.

    Returns:
        the exit code: 0, 1 after an error, 2 for wrong usage, 130 after Ctrl-C.
    """
    try:
        code = _dispatch(list(sys.argv[1:] if arguments is None else arguments))
        sys.stdout.flush()
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        _discard_output()
        return BROKEN_PIPE
    return code


def _dispatch(arguments: list[str]) -> int:
    if not arguments:
        sys.stderr.write(help_text())
        return 2
    name, *rest = arguments
    if name in {"-h", "--help"}:
        sys.stdout.write(help_text())
        return 0
    if name == "--version":
        return _version()
    if name not in COMMANDS:
        sys.stderr.write(f"error: {unknown_command(name)}\n")
        return 2
    try:
        from .invoke import invoke
    except ModuleNotFoundError as error:
        return _misinstalled(f"it needs the module {error.name!r}, which is not installed")
    if rest and (command := f"{name} {rest[0]}") in SUBCOMMANDS:
        return invoke(command, SUBCOMMANDS[command][0], rest[1:])
    return invoke(name, COMMANDS[name][0], rest)


def _version() -> int:
    from importlib.metadata import PackageNotFoundError, version

    try:
        sys.stdout.write(f"modelhost {version('modelhost')}\n")
    except PackageNotFoundError:
        return _misinstalled("it has no package metadata")
    return 0


def _misinstalled(reason: str) -> int:
    sys.stderr.write(
        f"error: modelhost is not installed properly: {reason}. Run: pip install --force-reinstall modelhost\n"
    )
    return 1


def _discard_output() -> None:
    """Keep the interpreter from failing once more when it flushes standard output at exit."""
    import os
    from contextlib import suppress

    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
