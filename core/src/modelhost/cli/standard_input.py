"""Text that is piped into a command."""

from __future__ import annotations

import sys

from modelhost.api import RequestError


def is_interactive() -> bool:
    """Whether a person types on standard input."""
    return sys.stdin is not None and sys.stdin.isatty()


def read_input() -> str:
    """All of standard input; empty when there is none.

    Raises:
        RequestError: it is not UTF-8.
    """
    if sys.stdin is None or sys.stdin.closed:
        return ""
    data = sys.stdin.buffer.read()
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise RequestError(
            f"standard input is not UTF-8 text: byte 0x{data[error.start]:02x} at position {error.start}"
        ) from None


def piped_prompt(argument: str | None) -> str | None:
    """The prompt from the argument, from standard input, or from both with a blank line between them.

    Returns:
        ``None`` when there is no argument and a person types on standard input.
    """
    if is_interactive():
        return argument
    piped = read_input().rstrip("\r\n")
    return "\n\n".join(part for part in (argument, piped) if part)
