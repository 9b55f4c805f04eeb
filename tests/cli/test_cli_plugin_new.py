"""``modelhost plugin new``."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from modelhost.scaffold import KINDS

from .conftest import Cli


@pytest.mark.parametrize("kind", KINDS)
def test_a_package_is_written(cli: Cli, tmp_path: Path, kind: str) -> None:
    result = cli("plugin", "new", kind, "two-words", "--directory", str(tmp_path))
    assert (result.code, result.err) == (0, "")
    root = tmp_path / "modelhost-two-words"
    files = {path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()}
    assert files >= {
        "pyproject.toml",
        "README.md",
        ".github/workflows/test.yml",
        "src/modelhost_two_words/__init__.py",
        "src/modelhost_two_words/plugin.py",
        "src/modelhost_two_words/py.typed",
        "tests/test_conformance.py",
    }
    assert {line for line in result.out.splitlines() if line.startswith(str(root))} == {str(root / f) for f in files}
    assert result.out.endswith(f'Next:\n  cd {root}\n  python -m pip install -e ".[test]"\n  python -m pytest\n')


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_left_to_fill_in_and_the_code_is_clean(cli: Cli, tmp_path: Path, kind: str) -> None:
    cli("plugin", "new", kind, "two-words", "--directory", str(tmp_path))
    for file in (tmp_path / "modelhost-two-words").rglob("*"):
        if file.is_file():
            text = file.read_text()
            assert "@two" not in text and "@package@" not in text and "@class@" not in text, file
    config = str(Path(__file__).parents[2] / "pyproject.toml")
    for command in (["check"], ["format", "--check"]):
        ruff = [sys.executable, "-m", "ruff", *command, "--config", config, str(tmp_path)]
        done = subprocess.run(ruff, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr


def test_metadata(cli: Cli, tmp_path: Path) -> None:
    cli("plugin", "new", "backend", "modelhost-fast", "--directory", str(tmp_path))
    project = tomllib.loads((tmp_path / "modelhost-fast/pyproject.toml").read_text())["project"]
    assert project["name"] == "modelhost-fast"
    assert project["description"] == "Fast kernel backend for modelhost"
    assert project["dependencies"] == ["modelhost>=0.1,<0.2"]
    assert project["entry-points"] == {"modelhost": {"fast": "modelhost_fast.plugin"}}


@pytest.mark.parametrize(
    ("name", "suggestion"),
    [
        ("TinyLlama", ", such as 'tiny-llama'"),
        ("tiny_llama", ", such as 'tiny-llama'"),
        ("3d-model", ", such as 'd-model'"),
        ("tiny--llama", ", such as 'tiny-llama'"),
        ("modelhost-", ""),
        ("../elsewhere", ", such as 'elsewhere'"),
        ("été", ", such as 't'"),
    ],
)
def test_names_that_cannot_be(cli: Cli, tmp_path: Path, name: str, suggestion: str) -> None:
    result = cli("plugin", "new", "model", name, "--directory", str(tmp_path))
    assert (result.code, result.out) == (1, "")
    assert result.err == (
        f"error: {name!r} cannot be the name of a plugin: it takes lower-case letters and digits, begins with a "
        f"letter, and has single hyphens between words{suggestion}\n"
    )
    assert not list(tmp_path.iterdir())


def test_names_that_are_taken(cli: Cli, tmp_path: Path) -> None:
    result = cli("plugin", "new", "model", "llama", "--directory", str(tmp_path))
    assert result.code == 1
    assert result.err == "error: modelhost-llama is the name of a package that exists; choose another\n"


def test_nothing_is_overwritten(cli: Cli, tmp_path: Path) -> None:
    taken = tmp_path / "modelhost-mine"
    taken.mkdir()
    assert cli("plugin", "new", "parser", "mine", "--directory", str(tmp_path)).code == 0, "an empty directory will do"
    before = {path: path.read_bytes() for path in taken.rglob("*") if path.is_file()}
    result = cli("plugin", "new", "model", "mine", "--directory", str(tmp_path))
    assert result.code == 1
    assert result.err == (f"error: {taken} exists already; nothing was written. Choose another name or --directory\n")
    assert before == {path: path.read_bytes() for path in taken.rglob("*") if path.is_file()}


def test_a_directory_that_cannot_be_written(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    result = cli("plugin", "new", "parser", "mine", "--directory", str(tmp_path / "file" / "below"))
    assert result.code == 1
    assert "cannot be written: Not a directory" in result.err


def test_kinds_that_do_not_exist(cli: Cli) -> None:
    result = cli("plugin", "new", "modl", "mine")
    assert result.code == 2
    assert "'model'" in result.err and "'speculator'" in result.err
