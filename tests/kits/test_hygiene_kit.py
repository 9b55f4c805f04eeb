"""The hygiene kit finds what is wrong with a package, and nothing with a sound one."""

from __future__ import annotations

from pathlib import Path

import pytest

from modelhost.scaffold import KINDS, PluginName, write_plugin
from modelhost.testing.arrays import ConformanceError
from modelhost.testing.hygiene import CHECKS, hygiene_checks


def package(parent: Path, kind: str = "parser") -> Path:
    write_plugin(PluginName.parse(kind, "acme"), parent)
    return parent / "modelhost-acme"


def failures(directory: Path, **options: float) -> dict[str, str]:
    """The text of every check that fails."""
    found = {}
    for parameter in hygiene_checks(directory, **options):
        try:
            parameter.values[0]()
        except ConformanceError as error:
            found[parameter.id] = str(error)
    return found


def edit(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))


@pytest.mark.parametrize("kind", KINDS)
def test_a_new_package_is_sound(tmp_path: Path, kind: str) -> None:
    assert failures(package(tmp_path, kind)) == {}


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        ('license = "Apache-2.0"\n', "", "pyproject.toml: project.license is missing"),
        ('requires-python = ">=3.11"\n', "", "pyproject.toml: project.requires-python is missing"),
        ('version = "0.1.0"\n', "", "pyproject.toml: project.version is missing"),
        (">=0.1,<0.2", "==0.1.0", "must be a range with both ends"),
        ('"modelhost>=0.1,<0.2"', "", "pyproject.toml: project.dependencies lacks modelhost"),
        ("[project.entry-points.modelhost]", "[project.entry-points.other]", "modelhost has no entry point"),
    ],
)
def test_metadata(tmp_path: Path, old: str, new: str, text: str) -> None:
    directory = package(tmp_path)
    edit(directory / "pyproject.toml", old, new)
    assert text in failures(directory)["metadata"]


def test_readme(tmp_path: Path) -> None:
    directory = package(tmp_path)
    (directory / "README.md").unlink()
    assert failures(directory) == {"metadata": f"{directory}: README.md is missing"}


def test_a_declaring_module_that_imports_a_library(tmp_path: Path) -> None:
    directory = package(tmp_path)
    edit(directory / "src/modelhost_acme/plugin.py", "API =", "import tokenizers\n\nAPI =")
    found = failures(directory)
    assert list(found) == ["declaring_imports"]
    assert "imports tokenizers, which is neither the standard library nor modelhost.api" in found["declaring_imports"]


def test_a_declaring_module_that_is_broken(tmp_path: Path) -> None:
    directory = package(tmp_path)
    edit(directory / "src/modelhost_acme/plugin.py", "yield ToolParser(", "yield ToolParsr(")
    assert "NameError: name 'ToolParsr' is not defined" in failures(directory)["declaration"]


def test_an_api_number_that_is_not_a_literal(tmp_path: Path) -> None:
    directory = package(tmp_path)
    edit(directory / "src/modelhost_acme/plugin.py", "API = (1, 0)", "from modelhost.api import API as API")
    assert "the API number must be a literal such as API = (1, 0)" in failures(directory)["declaration"]


def test_import_time(tmp_path: Path) -> None:
    directory = package(tmp_path)
    edit(directory / "src/modelhost_acme/plugin.py", "API =", "import time\n\ntime.sleep(0.2)\nAPI =")
    assert "ms, allowed 100 ms" in failures(directory, import_ms=100)["import_time"]
    assert failures(directory, import_ms=60_000) == {}


def test_import_time_is_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    failures(package(tmp_path))
    assert "entry point acme = modelhost_acme.plugin: declared in " in capsys.readouterr().out


def test_targets(tmp_path: Path) -> None:
    directory = package(tmp_path)
    edit(directory / "src/modelhost_acme/plugin.py", "formats:acme_calls", "formats:acme_cals")
    found = failures(directory)
    assert list(found) == ["targets", "targets_import"]
    assert "tool parser acme: target modelhost_acme.formats:acme_cals is not defined there" in found["targets"]
    assert "modelhost_acme.formats:acme_cals cannot be imported: AttributeError" in found["targets_import"]


def test_a_target_whose_import_fails(tmp_path: Path) -> None:
    directory = package(tmp_path)
    edit(directory / "src/modelhost_acme/formats.py", "acme_calls =", "import no_such_library\n\nacme_calls =")
    found = failures(directory)
    assert list(found) == ["targets_import"]
    assert "ModuleNotFoundError: No module named 'no_such_library'" in found["targets_import"]


def test_public_imports(tmp_path: Path) -> None:
    directory = package(tmp_path)
    edit(
        directory / "src/modelhost_acme/formats.py", "acme_calls =", "from modelhost.engine import LLM\n\nacme_calls ="
    )
    [line] = failures(directory)["public_imports"].splitlines()
    assert line.endswith(
        "formats.py:7: imports modelhost.engine.LLM; plugins may import modelhost.api, modelhost.graph.ops only"
    )


def test_expected_failures_become_strict_xfails(tmp_path: Path) -> None:
    parameters = {p.id: p for p in hygiene_checks(package(tmp_path), expected_failures={"targets": "none yet"})}
    [mark] = parameters["targets"].marks
    assert mark.kwargs == {"reason": "none yet", "strict": True}
    assert list(parameters) == list(CHECKS)
    with pytest.raises(ValueError, match=r"^expected_failures names checks that do not exist: target$"):
        hygiene_checks(tmp_path, expected_failures={"target": "misspelt"})
