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
import re
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from modelhost.testing import hygiene
from modelhost.testing.project import Project, imported_modules, parse_file

COLUMNS = ["kind", "id", "package", "gate test"]
INDEX = "core/src/modelhost/plugins/known_plugins.toml"
CORE = "core"


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


def packages(root: Path) -> list[Project]:
    """The core and every plugin directory, whether or not it is complete."""
    plugins = sorted(
        path for path in root.glob("plugins/*/*") if path.is_dir() and not path.name.startswith((".", "_"))
    )
    path = (str(root / CORE / "src"),)
    return [Project(directory, directory.relative_to(root).as_posix(), path) for directory in (root / CORE, *plugins)]


def check(root: Path) -> list[str]:
    """All problems of the tree at ``root``."""
    workspace = packages(root)
    return [
        *(problem for package in workspace for problem in hygiene_problems(package)),
        *duplicates(workspace),
        *index(root, workspace),
        *features(root, workspace),
        *core_names_no_plugin(root, workspace),
    ]


def hygiene_problems(package: Project) -> Iterator[str]:
    """What the kit that third parties use finds. Import times and the import of targets are left to tests."""
    host = package.label == CORE
    yield from hygiene.metadata(package, host=host)
    yield from hygiene.declaration(package, host=host)
    yield from hygiene.declaring_imports(package)
    yield from hygiene.targets(package)
    if not host:
        yield from hygiene.public_imports(package)


def duplicates(workspace: list[Project]) -> Iterator[str]:
    """No id, and no GGUF architecture, is declared twice."""
    owners: dict[tuple[str, str], str] = {}
    for package in workspace:
        for record in package.records:
            claims = [(record["kind"], record["id"]), *(("GGUF architecture", name) for name in record.get("gguf", ()))]
            for claim in claims:
                if claim in owners:
                    yield f"{package.label}: {claim[0]} {claim[1]} is already declared by {owners[claim]}"
                owners.setdefault(claim, package.label if claim[0] == record["kind"] else f"{record['id']}")


def index(root: Path, workspace: list[Project]) -> Iterator[str]:
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


def features(root: Path, workspace: list[Project]) -> Iterator[str]:
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
    elif test and not has_test(parse_file(file), test):
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


def core_names_no_plugin(root: Path, workspace: list[Project]) -> Iterator[str]:
    """Modelhost itself has no plugin's module and no architecture's id in its code; comments and docstrings may."""
    modules = {name for package in workspace[1:] for name in package.top_level}
    known = tomllib.loads((root / INDEX).read_text(encoding="utf-8"))
    architectures = {id for table in known.values() for id in table.get("architectures", ())}
    architectures |= {
        record["id"] for package in workspace[1:] for record in package.records if record["kind"] == "architecture"
    }
    words = re.compile(rf"\b({'|'.join(map(re.escape, sorted(modules | architectures)))})\b")
    for file in sorted((root / "core" / "src").rglob("*.py")):
        for line, text in code_words(parse_file(file)):
            if match := words.search(text):
                yield f"{file.relative_to(root).as_posix()}:{line}: core names {match[0]}, which belongs to a plugin"


def code_words(module: ast.Module) -> Iterator[tuple[int, str]]:
    """``(line, text)`` of the identifiers, imported names and string constants that are not docstrings."""
    documentation = {id(node.value) for node in ast.walk(module) if isinstance(node, ast.Expr)}
    yield from imported_modules(module)
    for node in ast.walk(module):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documentation:
            yield node.lineno, node.value
        elif isinstance(node, ast.Name):
            yield node.lineno, node.id
        elif isinstance(node, ast.Attribute):
            yield node.lineno, node.attr
        elif isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.lineno, node.name


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
