"""Proves that what the packages of this repository declare, document and test is the same set.

    python registry_check.py [--root DIR]

Each problem is one line; the exit status is 1 when there is one. What is checked:

- every declared record has a row in FEATURES.md and every row has a record;
- every row names a gate: a test that exists and mentions the id;
- every target is defined in the package that declares it, and no id is declared twice;
- every package has a README and complete metadata, and depends on a range of ``modelhost``;
- a declaring module states its API number as a literal and imports the standard library and ``modelhost.api`` only;
- a first-party plugin uses the public API only; modelhost itself names no plugin and no architecture.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

COLUMNS = ["kind", "id", "package", "gate test"]
PUBLIC = ("modelhost.api", "modelhost.graph.ops")
PUBLIC_IN_TESTS = (*PUBLIC, "modelhost.testing")
INDEX = "core/src/modelhost/plugins/known_plugins.toml"

DECLARE = """
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
print(json.dumps({"error": info.error, "records": records, "imported": sorted(set(sys.modules) - before)}))
"""


@dataclass(frozen=True)
class Package:
    """A directory of the workspace that becomes a distribution."""

    root: Path
    directory: Path

    @property
    def where(self) -> str:
        return self.directory.relative_to(self.root).as_posix()

    @property
    def source(self) -> Path:
        return self.directory / "src"

    @property
    def is_core(self) -> bool:
        return self.where == "core"

    @cached_property
    def project(self) -> dict[str, Any]:
        file = self.directory / "pyproject.toml"
        project = tomllib.loads(file.read_text(encoding="utf-8")).get("project", {}) if file.is_file() else {}
        return dict(project)

    @property
    def name(self) -> str:
        return str(self.project.get("name", self.where))

    @property
    def entry_points(self) -> dict[str, str]:
        return dict(self.project.get("entry-points", {}).get("modelhost", {}))

    @property
    def top_level(self) -> set[str]:
        """Names of the import packages that it installs."""
        return {path.stem for path in self.source.glob("*") if path.name.isidentifier() or path.suffix == ".py"}

    @cached_property
    def declarations(self) -> list[tuple[str, str, dict[str, Any]]]:
        """``(entry point, module, outcome of declaring it in a process of its own)``."""
        return [(name, module, self._declare(name, module)) for name, module in self.entry_points.items()]

    @property
    def records(self) -> list[dict[str, Any]]:
        return [record for _, _, outcome in self.declarations for record in outcome["records"]]

    def _declare(self, name: str, module: str) -> dict[str, Any]:
        path = [str(self.root / "core" / "src"), str(self.source)]
        command = [sys.executable, "-c", DECLARE, name, module, self.name, *path]
        try:
            result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, cwd=self.root)
        except subprocess.TimeoutExpired:
            return {"error": "declaring takes more than 60 s", "records": [], "imported": []}
        if result.returncode:
            error = (result.stderr.strip().splitlines() or [f"exit status {result.returncode}"])[-1]
            return {"error": error, "records": [], "imported": []}
        return dict(json.loads(result.stdout.splitlines()[-1]))


@dataclass(frozen=True)
class Row:
    """A row of FEATURES.md."""

    line: int
    kind: str
    id: str
    package: str
    gate: str

    @property
    def key(self) -> tuple[str, str, str]:
        return self.kind, self.id, self.package


def packages(root: Path) -> list[Package]:
    """The core and every plugin directory, whether or not it is complete."""
    plugins = sorted(
        path for path in root.glob("plugins/*/*") if path.is_dir() and not path.name.startswith((".", "_"))
    )
    return [Package(root, directory) for directory in (root / "core", *plugins)]


def check(root: Path) -> list[str]:
    """All problems of the tree at ``root``."""
    workspace = packages(root)
    checks = (
        problem
        for package in workspace
        for part in (metadata, declaring, targets, public_imports)
        for problem in part(package)
    )
    return [
        *checks,
        *duplicates(workspace),
        *index(root, workspace),
        *features(root, workspace),
        *core_names_no_plugin(root, workspace),
    ]


def metadata(package: Package) -> Iterator[str]:
    """A README and the fields of pyproject.toml that a released distribution needs."""
    for name in ("README.md", "pyproject.toml"):
        if not (package.directory / name).is_file():
            yield f"{package.where}: {name} is missing"
    if not package.project:
        return
    file, project = f"{package.where}/pyproject.toml", package.project
    for key in ("name", "version", "license", "requires-python"):
        if key not in project and key not in project.get("dynamic", ()):
            yield f"{file}: project.{key} is missing"
    if not package.entry_points:
        yield f"{file}: project.entry-points.modelhost has no entry point"
    if not package.is_core:
        yield from requirement(file, project.get("dependencies", ()))


def requirement(file: str, dependencies: Iterable[str]) -> Iterator[str]:
    """The plugin depends on a range of ``modelhost``, not on one version of it."""
    for text in dependencies:
        match = re.fullmatch(r"modelhost(?![\w.-])\s*(\[[^]]*\])?\s*([^;@\[\]]*)(@.*)?(;.*)?", text)
        if match:
            lower, upper = re.search(r">=|>|~=", match[2]), re.search(r"(?<![<>=!~])<|~=", match[2])
            if not lower or not upper or "==" in match[2] or match[3]:
                yield f'{file}: {text!r} must be a range with both ends, such as "modelhost>=0.1,<0.2"'
            return
    yield f"{file}: project.dependencies lacks modelhost"


def declaring(package: Package) -> Iterator[str]:
    """Each declaring module declares without error, is pure, and says which API it was written for."""
    for name, module, outcome in package.declarations:
        where = f"{package.where}: entry point {name} = {module}"
        if outcome["error"]:
            yield f"{where}: {outcome['error']}"
            continue
        own = package.top_level
        for imported in outcome["imported"]:
            top = imported.partition(".")[0]
            allowed = top in sys.stdlib_module_names or top in own or is_within(imported, "modelhost.api")
            if not allowed:
                yield f"{where}: imports {imported}, which is neither the standard library nor modelhost.api"
        if not package.is_core and not states_api(source_file(package, module)):
            yield f"{where}: the API number must be a literal such as API = (1, 0), which an upgrade does not change"


def states_api(file: Path | None) -> bool:
    """Whether the module assigns a literal pair to ``API``."""
    body = tree(file).body if file else []
    for node in body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and re.match(r"API\b", ast.unparse(node)):
            return isinstance(node.value, ast.Tuple) and all(isinstance(item, ast.Constant) for item in node.value.elts)
    return False


def targets(package: Package) -> Iterator[str]:
    """What a record points at is defined in the package that declares it."""
    for record in package.records:
        for field in ("target", "probe", "settings"):
            if record.get(field):
                module, _, attribute = record[field].partition(":")
                file = source_file(package, module)
                if file is None or attribute.partition(".")[0] not in names(tree(file)):
                    what = f"{record['kind']} {record['id']}: {field} {record[field]}"
                    yield f"{package.where}: {what} is not defined there"


def names(module: ast.Module) -> set[str]:
    """Names that the module defines or imports at its top level, also under an ``if`` or ``try``."""
    found: set[str] = set()
    for node in ast.walk(module):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.ImportFrom | ast.Import):
            found.update(alias.asname or alias.name for alias in node.names)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
    return found


def public_imports(package: Package) -> Iterator[str]:
    """A first-party plugin uses what everybody may use."""
    if package.is_core:
        return
    for folder, allowed in (("src", PUBLIC), ("tests", PUBLIC_IN_TESTS)):
        for file in sorted((package.directory / folder).rglob("*.py")):
            for line, module in imports(tree(file)):
                if is_within(module, "modelhost") and not any(is_within(module, name) for name in allowed):
                    place = f"{file.relative_to(package.root).as_posix()}:{line}"
                    yield f"{place}: imports {module}; plugins may import {', '.join(allowed)} only"


def imports(module: ast.Module) -> Iterator[tuple[int, str]]:
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
    return module == package or module.startswith(f"{package}.")


def duplicates(workspace: list[Package]) -> Iterator[str]:
    """No id, and no GGUF architecture, is declared twice."""
    owners: dict[tuple[str, str], str] = {}
    for package in workspace:
        for record in package.records:
            claims = [(record["kind"], record["id"]), *(("GGUF architecture", name) for name in record.get("gguf", ()))]
            for claim in claims:
                if claim in owners:
                    yield f"{package.where}: {claim[0]} {claim[1]} is already declared by {owners[claim]}"
                owners.setdefault(claim, package.where if claim[0] == record["kind"] else f"{record['id']}")


def index(root: Path, workspace: list[Package]) -> Iterator[str]:
    """The index of known plugins has every id that a message may have to name a package for."""
    keys = {
        "architecture": "architectures",
        "backend": "backends",
        "tool parser": "tool_parsers",
        "reasoning parser": "reasoning_parsers",
        "speculator": "speculators",
        "grammar": "grammars",
    }
    known = tomllib.loads((root / INDEX).read_text(encoding="utf-8"))
    for package in workspace[1:]:
        table = known.get(package.name, {})
        for record in package.records:
            wanted = [(keys[record["kind"]], record["id"])] if record["kind"] in keys else []
            wanted += [("gguf", name) for name in record.get("gguf", ())]
            for key, id in wanted:
                if id not in table.get(key, ()):
                    yield f"{INDEX}: {key} of [{package.name}] lacks {id!r}"


def features(root: Path, workspace: list[Package]) -> Iterator[str]:
    """Declared = documented = tested."""
    rows = list(feature_rows(root))
    declared = {(record["kind"], record["id"], package.name) for package in workspace for record in package.records}
    documented: set[tuple[str, str, str]] = set()
    for kind, id, package_name in sorted(declared - {row.key for row in rows}):
        yield f"FEATURES.md: no row for {kind} {id} of {package_name}"
    for row in rows:
        if row.key not in declared:
            yield f"FEATURES.md:{row.line}: {row.kind} {row.id} of {row.package} is not declared"
        if row.key in documented:
            yield f"FEATURES.md:{row.line}: {row.kind} {row.id} of {row.package} has another row"
        documented.add(row.key)
        yield from gate_problems(root, row)


def feature_rows(root: Path) -> Iterator[Row]:
    """The rows of every table in FEATURES.md that has the four columns."""
    file, inside = root / "FEATURES.md", False
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines() if file.is_file() else (), 1):
        cells = [cell.strip().strip("`").strip() for cell in line.strip().strip("|").split("|")]
        if not line.strip().startswith("|"):
            inside = False
        elif [cell.lower() for cell in cells] == COLUMNS:
            inside = True
        elif inside and not re.fullmatch(r"[\s|:-]+", line):
            kind, id, package, gate, *_ = (*cells, "", "", "", "")
            yield Row(number, kind, id, package, gate)


def gate_problems(root: Path, row: Row) -> Iterator[str]:
    """The gate is a test in the tree that mentions the id."""
    where = f"FEATURES.md:{row.line}: {row.kind} {row.id}"
    path, _, test = row.gate.partition("::")
    file = root / path
    if not re.fullmatch(r"tests/[\w./-]+\.py", path):
        yield f'{where}: the gate test must be "tests/FILE.py" or "tests/FILE.py::test_name", got {row.gate!r}'
    elif not file.is_file():
        yield f"{where}: gate test {path} does not exist"
    elif test and not has_test(tree(file), test):
        yield f"{where}: gate test {row.gate} does not exist"
    elif not re.search(rf"(?<![\w-]){re.escape(row.id)}(?![\w-])", file.read_text(encoding="utf-8")):
        yield f"{where}: gate test {path} does not mention {row.id}"


def has_test(module: ast.Module, name: str) -> bool:
    """Whether ``test_name`` or ``Class::test_name`` is defined; parameters in brackets are ignored."""
    body: list[ast.stmt] = module.body
    for part in re.sub(r"\[.*", "", name).split("::"):
        found = [node for node in body if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef)]
        match = [node for node in found if node.name == part]
        if not match:
            return False
        body = match[-1].body
    return True


def core_names_no_plugin(root: Path, workspace: list[Package]) -> Iterator[str]:
    """Modelhost itself has no plugin's module and no architecture's id in its code; comments and docstrings may."""
    modules = {name for package in workspace[1:] for name in package.top_level}
    known = tomllib.loads((root / INDEX).read_text(encoding="utf-8"))
    architectures = {id for table in known.values() for id in table.get("architectures", ())}
    architectures |= {
        record["id"] for package in workspace[1:] for record in package.records if record["kind"] == "architecture"
    }
    words = re.compile(rf"\b({'|'.join(map(re.escape, sorted(modules | architectures)))})\b")
    for file in sorted((root / "core" / "src").rglob("*.py")):
        for line, text in code_words(tree(file)):
            if match := words.search(text):
                yield f"{file.relative_to(root).as_posix()}:{line}: core names {match[0]}, which belongs to a plugin"


def code_words(module: ast.Module) -> Iterator[tuple[int, str]]:
    """``(line, text)`` of the identifiers, imported names and string constants that are not docstrings."""
    documentation = {id(node.value) for node in ast.walk(module) if isinstance(node, ast.Expr)}
    yield from imports(module)
    for node in ast.walk(module):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documentation:
            yield node.lineno, node.value
        elif isinstance(node, ast.Name):
            yield node.lineno, node.id
        elif isinstance(node, ast.Attribute):
            yield node.lineno, node.attr
        elif isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.lineno, node.name


def source_file(package: Package, module: str) -> Path | None:
    """The file of a module of this package."""
    base = package.source.joinpath(*module.split("."))
    return next((file for file in (base.with_suffix(".py"), base / "__init__.py") if file.is_file()), None)


@cache
def tree(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"), filename=str(file))


def main() -> int:
    parser = argparse.ArgumentParser(description="Checks that declared, documented and tested is the same set.")
    parser.add_argument("--root", type=Path, default=Path(__file__).parent, help="the tree to check")
    root = parser.parse_args().root.resolve()
    try:
        problems = check(root)
    except SyntaxError as error:
        problems = [f"{error.filename}:{error.lineno}: SyntaxError: {error.msg}"]
    print("\n".join(problems) or "declared, documented and tested: the same set")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
