"""Conformance kit for every kind of plugin: what a well-behaved package looks like from outside.

In the tests of a plugin's package, with the directory of its pyproject.toml::

    from modelhost.testing.hygiene import hygiene_checks

    @pytest.mark.parametrize("check", hygiene_checks(Path(__file__).parents[1]))
    def test_hygiene(check):
        check()

The checks:

``metadata``
    a README, and in pyproject.toml a name, version, licence, Python version, entry point and a range of modelhost.
``declaration``
    every declaring module yields its records, and states the API number that it was written for as a literal.
``declaring_imports``
    importing a declaring module imports the standard library, ``modelhost.api`` and the package itself only.
``import_time``
    that takes less than a limit; the time is printed.
``targets``
    what the records point at is defined in the package.
``targets_import``
    and can be imported.
``public_imports``
    of modelhost, the package imports :data:`PUBLIC` only, its tests :data:`PUBLIC_IN_TESTS`.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from .arrays import ConformanceError
from .parameters import parametrize
from .project import Project, defined_names, imported_modules, is_within, parse_file

__all__ = ["CHECKS", "PUBLIC", "PUBLIC_IN_TESTS", "hygiene_checks"]

PUBLIC = ("modelhost.api", "modelhost.graph.ops")
"""What a plugin may import of modelhost. The rest changes without notice."""
PUBLIC_IN_TESTS = (*PUBLIC, "modelhost.testing")
"""What its tests may import."""
IMPORT_MS = 500.0
"""Allowed time to declare, in milliseconds: far more than records take, less than any framework."""


def hygiene_checks(
    directory: Path, *, import_ms: float = IMPORT_MS, expected_failures: Mapping[str, str] | None = None
) -> list[Any]:
    """All checks as parameters for ``pytest.mark.parametrize``.

    Args:
        directory: of the package's pyproject.toml.
        import_ms: allowed time to declare, in milliseconds.
        expected_failures: name of a check to the reason why it fails. Such a check must fail.

    Raises:
        ValueError: ``expected_failures`` names a check that does not exist.
    """
    project = Project(directory)
    checks: dict[str, Callable[[Project], Iterable[str]]] = {
        **CHECKS,
        "import_time": partial(import_time, most=import_ms),
    }
    return parametrize(
        {name: partial(_require_none, find, project) for name, find in checks.items()}, expected_failures
    )


def _require_none(find: Callable[[Project], Iterable[str]], project: Project) -> None:
    problems = list(find(project))
    if problems:
        raise ConformanceError("\n".join(problems))


def metadata(project: Project, *, host: bool = False) -> Iterator[str]:
    """A README and the fields of pyproject.toml that a released distribution needs.

    Args:
        host: the project is modelhost itself, which does not depend on modelhost.
    """
    for name in ("README.md", "pyproject.toml"):
        if not (project.directory / name).is_file():
            yield f"{project.place()}: {name} is missing"
    if not project.metadata:
        return
    file = project.place("pyproject.toml")
    for key in ("name", "version", "license", "requires-python"):
        if key not in project.metadata and key not in project.metadata.get("dynamic", ()):
            yield f"{file}: project.{key} is missing"
    if not project.entry_points:
        yield f"{file}: project.entry-points.modelhost has no entry point"
    if not host:
        yield from requirement(file, project.metadata.get("dependencies", ()))


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


def declaration(project: Project, *, host: bool = False) -> Iterator[str]:
    """Each declaring module declares without error and says which API it was written for."""
    for where, module, outcome in _declared(project):
        if outcome["error"]:
            yield f"{where}: {outcome['error']}"
        elif not host and not _states_api(project.source_file(module)):
            yield f"{where}: the API number must be a literal such as API = (1, 0), which an upgrade does not change"


def declaring_imports(project: Project) -> Iterator[str]:
    """Declaring imports the standard library, ``modelhost.api`` and the package itself only."""
    for where, _, outcome in _declared(project):
        for imported in outcome["imported"]:
            top = imported.partition(".")[0]
            allowed = top in sys.stdlib_module_names or top in project.top_level or is_within(imported, "modelhost.api")
            if not allowed:
                yield f"{where}: imports {imported}, which is neither the standard library nor modelhost.api"


def import_time(project: Project, *, most: float = IMPORT_MS) -> Iterator[str]:
    """Declaring takes less than ``most`` milliseconds. Prints what it takes."""
    for where, _, outcome in _declared(project):
        print(f"{where}: declared in {outcome['import_ms']:.1f} ms")
        if outcome["import_ms"] > most:
            yield f"{where}: declaring takes {outcome['import_ms']:.0f} ms, allowed {most:.0f} ms"


def targets(project: Project) -> Iterator[str]:
    """What a record points at is defined in the package that declares it."""
    for record, field, target in project.targets:
        module, _, attribute = target.partition(":")
        file = project.source_file(module)
        if file is None or attribute.partition(".")[0] not in defined_names(parse_file(file)):
            yield f"{project.place()}: {record['kind']} {record['id']}: {field} {target} is not defined there"


def targets_import(project: Project) -> Iterator[str]:
    """And it can be imported."""
    return (f"{project.place()}: {problem}" for problem in project.import_problems())


def public_imports(project: Project) -> Iterator[str]:
    """The package and its tests use what everybody may use."""
    for folder, allowed in (("src", PUBLIC), ("tests", PUBLIC_IN_TESTS)):
        for file in project.files(folder):
            for line, module in imported_modules(parse_file(file)):
                if is_within(module, "modelhost") and not any(is_within(module, name) for name in allowed):
                    place = project.place(file.relative_to(project.directory).as_posix())
                    yield f"{place}:{line}: imports {module}; plugins may import {', '.join(allowed)} only"


def _declared(project: Project) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """``(what problems call it, module, outcome)`` of each declaring module."""
    for name, module, outcome in project.declarations:
        yield f"{project.place()}: entry point {name} = {module}", module, outcome


def _states_api(file: Path | None) -> bool:
    """Whether the module assigns a literal pair to ``API``."""
    for node in parse_file(file).body if file else []:
        if isinstance(node, ast.Assign | ast.AnnAssign) and re.match(r"API\b", ast.unparse(node)):
            return isinstance(node.value, ast.Tuple) and all(isinstance(item, ast.Constant) for item in node.value.elts)
    return False


CHECKS: dict[str, Callable[[Project], Iterable[str]]] = {
    "metadata": metadata,
    "declaration": declaration,
    "declaring_imports": declaring_imports,
    "import_time": import_time,
    "targets": targets,
    "targets_import": targets_import,
    "public_imports": public_imports,
}
"""Every check by name: a function that yields the problems of a project, one line each."""
