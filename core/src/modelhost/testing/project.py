"""What the source tree of a plugin says about itself: its pyproject.toml, its modules and what it declares."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

__all__ = ["Project", "defined_names", "imported_modules", "is_within", "parse_file"]

_SECONDS = 60
_DECLARE = """
import dataclasses, json, sys
entry_point, module, distribution, *path = sys.argv[1:]
sys.path[:0] = path
import pluggy
from modelhost.api import hookspecs
from modelhost.plugins.declaration import declare
from modelhost.plugins.info import Found
manager = pluggy.PluginManager(hookspecs.PROJECT)
manager.add_hookspecs(hookspecs)
before = set(sys.modules)
info, registrations = declare(manager, Found(entry_point, module, distribution, "in the tree", path[-1]))
records = [{**dataclasses.asdict(r.record), "kind": r.kind} for r in registrations]
imported = sorted(set(sys.modules) - before)
print(json.dumps({"error": info.error, "records": records, "imported": imported, "import_ms": info.import_ms}))
"""
_IMPORT = """
import importlib, operator, sys
count, *rest = sys.argv[1:]
sys.path[:0] = rest[: int(count)]
for target in rest[int(count) :]:
    module, _, attribute = target.partition(":")
    try:
        operator.attrgetter(attribute)(importlib.import_module(module))
    except Exception as error:
        print(f"{target} cannot be imported: {type(error).__name__}: {error}")
"""


@dataclass(frozen=True)
class Project:
    """A directory with a pyproject.toml, whose packages lie in ``src`` or beside it.

    Attributes:
        directory: of the pyproject.toml.
        label: what problems call the directory; empty for paths relative to it.
        path: directories that come before :attr:`source` on ``sys.path`` of the processes that declare and import.
    """

    directory: Path
    label: str = ""
    path: tuple[str, ...] = ()

    def place(self, *parts: str) -> str:
        """The path of a file of the project, for problems."""
        return "/".join(filter(None, (self.label, *parts))) or str(self.directory)

    @property
    def source(self) -> Path:
        """The directory that goes on ``sys.path``."""
        source = self.directory / "src"
        return source if source.is_dir() else self.directory

    @cached_property
    def metadata(self) -> dict[str, Any]:
        """The table ``project`` of pyproject.toml; empty when there is none."""
        file = self.directory / "pyproject.toml"
        return dict(tomllib.loads(file.read_text(encoding="utf-8")).get("project", {})) if file.is_file() else {}

    @property
    def name(self) -> str:
        """The distribution's name."""
        return str(self.metadata.get("name", self.place()))

    @property
    def entry_points(self) -> dict[str, str]:
        """Name to declaring module."""
        return dict(self.metadata.get("entry-points", {}).get("modelhost", {}))

    @property
    def top_level(self) -> set[str]:
        """Names of the import packages that it installs."""
        found = [path for path in self.source.glob("*") if path.suffix == ".py" or (path / "__init__.py").is_file()]
        return {path.stem for path in found}

    @cached_property
    def declarations(self) -> list[tuple[str, str, dict[str, Any]]]:
        """``(entry point, module, outcome of declaring it in a process of its own)``.

        The outcome has ``error``, ``records``, ``imported`` (modules) and ``import_ms``.
        """
        return [(name, module, self._declare(name, module)) for name, module in self.entry_points.items()]

    @property
    def records(self) -> list[dict[str, Any]]:
        """All declared records as plain data, with their ``kind``."""
        return [record for _, _, outcome in self.declarations for record in outcome["records"]]

    @property
    def targets(self) -> Iterator[tuple[dict[str, Any], str, str]]:
        """``(record, field, "module:attribute")`` of everything that the records point at."""
        for record in self.records:
            for field in ("target", "probe", "settings"):
                if record.get(field):
                    yield record, field, record[field]

    def source_file(self, module: str) -> Path | None:
        """The file of a module of this project."""
        base = self.source.joinpath(*module.split("."))
        return next((file for file in (base.with_suffix(".py"), base / "__init__.py") if file.is_file()), None)

    def files(self, folder: str) -> list[Path]:
        """The Python files of ``src`` or ``tests``."""
        if folder != "src":
            return sorted((self.directory / folder).rglob("*.py"))
        packages = [self.source / name for name in sorted(self.top_level)]
        return [
            file
            for path in packages
            for file in (sorted(path.rglob("*.py")) if path.is_dir() else [path.with_suffix(".py")])
        ]

    def import_problems(self) -> list[str]:
        """Import every target in one process of its own; one line for each that fails."""
        path = [*self.path, str(self.source)]
        wanted = sorted({target for _, _, target in self.targets})
        result = self._run(_IMPORT, [str(len(path)), *path, *wanted])
        return [result] if isinstance(result, str) else result.stdout.splitlines()

    def _declare(self, name: str, module: str) -> dict[str, Any]:
        result = self._run(_DECLARE, [name, module, self.name, *self.path, str(self.source)])
        failed = {"records": [], "imported": [], "import_ms": 0.0}
        return (
            {"error": result, **failed} if isinstance(result, str) else dict(json.loads(result.stdout.split("\n")[-2]))
        )

    def _run(self, code: str, arguments: list[str]) -> subprocess.CompletedProcess[str] | str:
        """The finished process, or why it did not finish well."""
        command = [sys.executable, "-c", code, *arguments]
        try:
            result = subprocess.run(
                command, capture_output=True, text=True, check=False, timeout=_SECONDS, cwd=self.directory
            )
        except subprocess.TimeoutExpired:
            return f"declaring takes more than {_SECONDS} s"
        if result.returncode:
            return (result.stderr.strip().splitlines() or [f"exit status {result.returncode}"])[-1]
        return result


@cache
def parse_file(file: Path) -> ast.Module:
    """The syntax tree of a file.

    Raises:
        SyntaxError: it is not Python.
    """
    return ast.parse(file.read_text(encoding="utf-8"), filename=str(file))


def defined_names(module: ast.Module) -> set[str]:
    """Names that the module defines or imports, also under an ``if`` or ``try``."""
    found: set[str] = set()
    for node in ast.walk(module):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.ImportFrom | ast.Import):
            found.update(alias.asname or alias.name for alias in node.names)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
    return found


def imported_modules(module: ast.Module) -> Iterator[tuple[int, str]]:
    """``(line, full name)`` of everything imported, also by ``import_module`` with a constant."""
    for node in ast.walk(module):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)
        elif isinstance(node, ast.Call) and re.search(r"(import_module|__import__)$", ast.unparse(node.func)):
            constants = [argument.value for argument in node.args[:1] if isinstance(argument, ast.Constant)]
            yield from ((node.lineno, str(value)) for value in constants)


def is_within(module: str, package: str) -> bool:
    """Whether ``module`` is ``package`` or lies in it."""
    return module == package or module.startswith(f"{package}.")
