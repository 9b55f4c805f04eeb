"""What the commands print to: standard output for results, standard error for all else."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from rich.console import Console

_WIDE = 1000
_CONTROL = {code: "\N{REPLACEMENT CHARACTER}" for code in (*range(32), *range(127, 160)) if chr(code) not in "\n\t"}


def console(stream: TextIO) -> Console:
    """A console for tables and spinners; a stream that is no terminal gets lines of any length, unstyled."""
    from rich.console import Console

    width = None if stream.isatty() else _WIDE
    return Console(file=stream, width=width, markup=False, highlight=False, emoji=False)


def print_table(title: str | None, header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """A table on standard output. Headers that begin with ``>`` are of columns aligned to the right.

    Without headers it is a plain list of rows.
    """
    from rich import box
    from rich.table import Table

    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD if header else None)
    table.show_header = bool(header)
    for name in header:
        table.add_column(name.removeprefix(">"), justify="right" if name.startswith(">") else "left", overflow="fold")
    for row in rows:
        table.add_row(*row)
    console(sys.stdout).print(table)


def print_line(text: str) -> None:
    """A line on standard output."""
    sys.stdout.write(f"{text}\n")


def print_pairs(title: str, pairs: Iterable[tuple[str, str]]) -> None:
    """A heading and a line for each label on standard output."""
    rows = list(pairs)
    width = max((len(label) for label, _ in rows), default=0)
    print_line(title)
    for label, value in rows:
        print_line(f"  {label:<{width}}  {value}".rstrip().replace("\n", "\n" + " " * (width + 4)))


def print_json(value: Any) -> None:
    """``value`` as indented JSON on standard output."""
    print_line(json.dumps(value, indent=2))


def note(text: str) -> None:
    """A line on standard error."""
    sys.stdout.flush()
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def warn(texts: Iterable[str]) -> None:
    """Warnings on standard error."""
    for text in texts:
        note(f"warning: {text}")


@contextmanager
def spinner(text: str) -> Iterator[None]:
    """Show that something takes a while, when standard error is a terminal."""
    if not sys.stderr.isatty():
        yield
        return
    with console(sys.stderr).status(text):
        yield


def write_answer(text: str) -> None:
    """Generated text on standard output, at once. A terminal gets no control characters: they could take it over."""
    sys.stdout.write(text.translate(_CONTROL) if sys.stdout.isatty() else text)
    sys.stdout.flush()
