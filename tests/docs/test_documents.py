"""Code blocks of the documents are taken from files, and their commands are run."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCUMENTS = ("write-a-model.md", "write-a-plugin.md")
_BLOCK = re.compile(r"^```(\w+)(?: file=(\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(document: str) -> list[tuple[str, str | None, str]]:
    """``(language, file, text)`` of every code block."""
    found = _BLOCK.findall((ROOT / "docs" / document).read_text())
    return [(language, file or None, text) for language, file, text in found]


def excerpts() -> Iterator[object]:
    for document in DOCUMENTS:
        for number, (language, file, text) in enumerate(blocks(document)):
            if language != "console":
                yield pytest.param(file, text, id=f"{document}-{number}")


def commands(document: str) -> list[tuple[str, list[str]]]:
    """Every command and the lines that it must print among others; ``...`` stands for anything."""
    found: list[tuple[str, list[str]]] = []
    for language, _, text in blocks(document):
        for line in text.splitlines() if language == "console" else ():
            if line.startswith("$ "):
                found.append((line[2:], []))
            else:
                found[-1][1].append(line)
    return found


@pytest.mark.parametrize(("file", "text"), list(excerpts()))
def test_code_is_that_of_the_file(file: str | None, text: str) -> None:
    assert file is not None, f"the block names no file:\n{text}"
    assert text in (ROOT / file).read_text(), f"not in {file}:\n{text}"


@pytest.mark.parametrize("document", DOCUMENTS)
def test_links_lead_somewhere(document: str) -> None:
    for target in re.findall(r"\]\(([^)#]+)", (ROOT / "docs" / document).read_text()):
        assert (ROOT / "docs" / target).exists(), target


@pytest.mark.slow
@pytest.mark.parametrize("document", DOCUMENTS)
def test_commands_print_what_the_document_says(document: str, tmp_path: Path) -> None:
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    site = tmp_path / "site"
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(site),
        "PIP_TARGET": str(site),
        "PIP_NO_DEPS": "1",
        "PIP_NO_BUILD_ISOLATION": "0",  # pip reads the variable as a value for "build isolation"
        "PYTEST_ADDOPTS": "-p no:cacheprovider",
        "COLUMNS": "240",
    }
    for command, lines in commands(document):
        done = subprocess.run(command, shell=True, capture_output=True, text=True, cwd=tmp_path, env=environment)
        output = done.stdout + done.stderr
        assert done.returncode == 0, f"$ {command}\n{output}"
        for line in lines:
            pattern = ".*".join(map(re.escape, line.split("...")))
            assert re.search(f"^{pattern}$", output, re.MULTILINE), f"$ {command}\n{output}\nlacks {line}"
