"""Writes docs/parsers.md, the table of all parsers in plugins/parsers, from what the packages declare.

    python scripts/parser_table.py            # write it
    python scripts/parser_table.py --check    # say whether it is current; the exit status is 1 when it is not

The description of a format is the docstring below its value in the package; records of the same target share a row.
"""

from __future__ import annotations

import argparse
import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
FILE = ROOT / "docs" / "parsers.md"
KINDS = (
    ("Tool calls", "modelhost_tool_parsers", "--tool-call-parser"),
    ("Reasoning", "modelhost_reasoning_parsers", "--reasoning-parser"),
)
HEAD = """\
# Parsers

Written by `scripts/parser_table.py` from the records of the packages under `plugins/parsers`.

A parser is chosen by name, or by itself from the chat template and the architecture: `modelhost explain MODEL` says
which and why. Names are vLLM's. [write-a-parser.md](write-a-parser.md) tells how a format is declared.
"""


@dataclass(frozen=True)
class Row:
    """One format under all its names."""

    names: tuple[str, ...]
    package: str
    form: str
    models: str

    def __str__(self) -> str:
        names = ", ".join(f"`{name}`" for name in self.names)
        return f"| {names} | {self.package} | {self.form} | {self.models} |"


def table() -> str:
    """The text of docs/parsers.md."""
    parts = [HEAD]
    for title, hook, flag in KINDS:
        rows = sorted(rows_of(hook), key=lambda row: (row.package, row.names))
        count = sum(len(row.names) for row in rows)
        lines = [
            f"\n## {title}: `{flag} NAME` ({count} names)\n",
            "| name | package | format | models |",
            "|---|---|---|---|",
            *map(str, rows),
        ]
        parts.append("\n".join(lines) + "\n")
    return "".join(parts)


def rows_of(hook: str) -> Iterator[Row]:
    """The rows of one kind."""
    for declaration in sorted((ROOT / "plugins" / "parsers").glob("*/src/*/plugin.py")):
        package = declaration.parent
        if str(package.parent) not in sys.path:
            sys.path.insert(0, str(package.parent))
        declare = getattr(import_module(f"{package.name}.plugin"), hook, None)
        by_target: dict[str, list[Any]] = {}
        for record in declare() if declare else ():
            by_target.setdefault(record.target, []).append(record)
        for target, records in by_target.items():
            models = _cell("; ".join(dict.fromkeys(record.models for record in records if record.models)))
            names = tuple(record.id for record in records)
            yield Row(names, package.name.replace("_", "-"), describe(target), models)


def describe(target: str) -> str:
    """The first paragraph of a format's docstring; of reasoning between markers without one, the markers."""
    module, _, name = target.partition(":")
    text = docstrings(module).get(name) or _markers(getattr(import_module(module), name))
    return _cell(" ".join(text.split("\n\n")[0].split()))


@cache
def docstrings(module: str) -> dict[str, str]:
    """The docstrings of a module's functions, classes and values; a value's is the text below it."""
    found = {}
    file = import_module(module).__file__
    body = ast.parse(Path(file or "").read_text(encoding="utf-8")).body
    for node, following in zip(body, [*body[1:], None], strict=True):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found[node.name] = ast.get_docstring(node) or ""
        elif isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(following, ast.Expr):
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            if isinstance(target, ast.Name) and isinstance(following.value, ast.Constant):
                found[target.id] = str(following.value.value)
    return {name: text for name, text in found.items() if text}


def _markers(form: Any) -> str:
    start, end = getattr(form, "start", None), getattr(form, "end", None)
    if not (isinstance(start, tuple) and isinstance(end, tuple)):
        if documented := getattr(form, "__doc__", None):
            return str(documented)
        raise SystemExit(f"{form!r} has no docstring to describe it with")
    markers = f"{' or '.join(map(_code, start))} … {' or '.join(map(_code, end))}"
    return markers if form.begins == "reasoning" else f"{markers}, the start is required"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _code(text: str) -> str:
    return "`" + text.replace("\n", "\\n") + "`"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="say whether the file is current")
    text = table()
    if parser.parse_args().check:
        if FILE.is_file() and FILE.read_text(encoding="utf-8") == text:
            return 0
        print(f"{FILE.relative_to(ROOT)} is not current. Run: python scripts/parser_table.py")
        return 1
    FILE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
