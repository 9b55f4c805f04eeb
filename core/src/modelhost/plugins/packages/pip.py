"""pip, run in a process of its own on the environment that modelhost is in."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.resources import as_file, files

from modelhost.api import PluginError

from .changes import Change, changes_of
from .failures import failure_sentence

CONSTRAINTS = "constraints.txt"
"""The release's file of versions that go together, beside this module's package."""


@dataclass(frozen=True, slots=True)
class Report:
    """What pip would do.

    Attributes:
        changes: the distributions that it would install.
    """

    changes: tuple[Change, ...]


@dataclass(frozen=True)
class Pip:
    """Installs requirements under this release's constraints.

    Attributes:
        upgrade: take newer versions of what is named and already installed.
        editable: directories to install in editable mode.
        python: the interpreter whose environment is changed.
    """

    upgrade: bool = False
    editable: tuple[str, ...] = ()
    python: str = field(default_factory=lambda: sys.executable)

    def resolve(self, requirements: Sequence[str]) -> Report:
        """What an installation would change. Nothing is.

        Raises:
            PluginError: pip is missing, or finds no way; the text says why in a sentence.
        """
        with _constraints() as constraints:
            options = ["--dry-run", "--report", "-", *self._arguments(requirements, constraints)]
            done = self._run("install", "--quiet", *options)
            if done.returncode:
                verbose = self._run("install", "-vv", *options)
                raise PluginError(failure_sentence(done.stderr, verbose.stdout + verbose.stderr))
        return Report(changes_of(json.loads(done.stdout)["install"]))

    def install(self, requirements: Sequence[str], report: Report) -> None:
        """Install exactly what ``report`` says.

        Raises:
            PluginError: pip fails.
        """
        pins = [f"{change.name}=={change.version}" for change in report.changes]
        with _constraints(pins) as constraints:
            done = self._run("install", "--quiet", *self._arguments(requirements, constraints))
        if done.returncode:
            raise PluginError(failure_sentence(done.stderr, done.stderr))

    def uninstall(self, distributions: Sequence[str]) -> None:
        """Remove distributions.

        Raises:
            PluginError: pip fails.
        """
        done = self._run("uninstall", "--quiet", "--yes", *distributions)
        if done.returncode:
            raise PluginError(failure_sentence(done.stderr, done.stderr))

    def _arguments(self, requirements: Sequence[str], constraints: str) -> Iterator[str]:
        yield from ("--constraint", constraints)
        if self.upgrade:
            yield "--upgrade"
        yield from requirements
        for directory in self.editable:
            yield from ("--editable", directory)

    def _run(self, command: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        options = ["--disable-pip-version-check", "--no-input", "--no-color"]
        line = [self.python, "-m", "pip", command, *options, *arguments]
        done = subprocess.run(
            line, capture_output=True, text=True, check=False, env={**os.environ, "LC_ALL": "C.UTF-8"}
        )
        if done.returncode and "No module named pip" in done.stderr:
            raise PluginError(
                f"the environment of {self.python} has no pip. Add it with: {self.python} -m ensurepip, or install "
                f"the packages with the tool that made the environment, such as: uv pip {command} PACKAGE"
            )
        return done


@contextmanager
def _constraints(more: Sequence[str] = ()) -> Iterator[str]:
    """A constraints file: that of the release and ``more`` lines."""
    with (
        as_file(files("modelhost.plugins").joinpath(CONSTRAINTS)) as release,
        tempfile.TemporaryDirectory() as folder,
    ):
        file = os.path.join(folder, CONSTRAINTS)
        pinned = {line.partition("==")[0] for line in more}
        lines = [line for line in release.read_text(encoding="utf-8").splitlines() if _name(line) not in pinned]
        with open(file, "w", encoding="utf-8") as stream:
            stream.write("\n".join([*lines, *more, ""]))
        yield file


def _name(line: str) -> str:
    import re

    return re.split(r"[<>=!~\s#]", line, maxsplit=1)[0]
