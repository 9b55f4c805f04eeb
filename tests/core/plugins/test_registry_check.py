"""``registry_check.py`` on a small tree: silent when intact, and naming what was taken away."""

from __future__ import annotations

import runpy
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import pytest

import modelhost.api
import modelhost.plugins

CHECK = Path(__file__).parents[3] / "registry_check.py"
PLUGIN = "plugins/models/tiny/src/modelhost_tiny"
INDEX = "core/src/modelhost/plugins/known_plugins.toml"

PYPROJECT = """
[project]
name = "{name}"
version = "0.1.0"
license = "Apache-2.0"
requires-python = ">=3.11"
dependencies = [{dependencies}]

[project.entry-points.modelhost]
{entry_point}
"""
DECLARATION = """
from modelhost.api import Architecture, hookimpl

API = (1, 0)


@hookimpl
def modelhost_architectures():
    yield Architecture("TinyForCausalLM", target="modelhost_tiny.tiny:Tiny", gguf="tiny")
    yield Architecture("SmallForCausalLM", target="modelhost_tiny.tiny:Small")
"""
BUILTIN = """
from modelhost.api import API as API
from modelhost.api import Backend, hookimpl


@hookimpl
def modelhost_backends():
    yield Backend("reference", target="modelhost.reference:Reference", fallback=True)
"""
FEATURES = """
# Features

| kind | id | package | gate test |
|---|---|---|---|
| architecture | TinyForCausalLM | modelhost-tiny | tests/models/test_tiny.py::test_tiny |
| architecture | `SmallForCausalLM` | modelhost-tiny | tests/models/test_tiny.py |

Text between tables.

| kind | id | package | gate test |
|---|---|---|---|
| backend | reference | modelhost | tests/test_reference.py::TestReference::test_runs |

| another | table |
|---|---|
| of | other things |
"""
TINY = """\
from modelhost.api import Record
from modelhost.graph import ops
class Tiny: pass
Small = Tiny
"""
FILES = {
    "core/README.md": "# core",
    "core/pyproject.toml": PYPROJECT.format(
        name="modelhost", dependencies='"pluggy"', entry_point='core = "modelhost.builtin"'
    ),
    "core/src/modelhost/__init__.py": "",
    "core/src/modelhost/builtin.py": BUILTIN,
    "core/src/modelhost/reference.py": "class Reference: pass\n",
    "plugins/models/tiny/README.md": "# tiny",
    "plugins/models/tiny/pyproject.toml": PYPROJECT.format(
        name="modelhost-tiny", dependencies='"modelhost>=0.1,<0.2"', entry_point='tiny = "modelhost_tiny.plugin"'
    ),
    f"{PLUGIN}/__init__.py": "",
    f"{PLUGIN}/plugin.py": DECLARATION,
    f"{PLUGIN}/tiny.py": TINY,
    "tests/models/test_tiny.py": 'IDS = ["TinyForCausalLM", "SmallForCausalLM"]\ndef test_tiny(): assert IDS\n',
    "tests/test_reference.py": "class TestReference:\n    def test_runs(self): assert 'reference'\n",
    "FEATURES.md": FEATURES,
}  # fmt: skip


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for package in (modelhost.api, modelhost.plugins):
        source = Path(package.__file__ or "").parent
        target = tmp_path / "core/src/modelhost" / source.name
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
    for name, text in FILES.items():
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(dedent(text))
    (tmp_path / INDEX).write_text(
        '[recommended]\nbackend = "x"\n'
        '[modelhost-tiny]\narchitectures = ["TinyForCausalLM", "SmallForCausalLM"]\ngguf = ["tiny"]\n'
    )
    return tmp_path


def run(tree: Path) -> tuple[int, list[str]]:
    command = [sys.executable, str(CHECK), "--root", str(tree)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.stderr == ""
    return result.returncode, result.stdout.splitlines()


def check(tree: Path) -> list[str]:
    return list(runpy.run_path(str(CHECK))["check"](tree))


def change(name: str, old: str, new: str) -> Callable[[Path], None]:
    def apply(tree: Path) -> None:
        text = (tree / name).read_text()
        assert old in text
        (tree / name).write_text(text.replace(old, new))

    return apply


def remove(name: str) -> Callable[[Path], None]:
    return lambda tree: (tree / name).unlink()


def append(name: str, text: str) -> Callable[[Path], None]:
    def apply(tree: Path) -> None:
        with (tree / name).open("a") as file:
            file.write(text)

    return apply


def test_an_intact_tree(tree: Path) -> None:
    assert run(tree) == (0, ["declared, documented and tested: the same set"])


SMALL = '    yield Architecture("SmallForCausalLM", target="modelhost_tiny.tiny:Small")\n'
TINY_ROW = "| architecture | TinyForCausalLM | modelhost-tiny | tests/models/test_tiny.py::test_tiny |"
PLACE = "plugins/models/tiny"
ENTRY = f"{PLACE}: entry point tiny = modelhost_tiny.plugin"


@pytest.mark.parametrize(
    ("damage", "problems"),
    [
        (
            change(f"{PLUGIN}/plugin.py", SMALL, ""),
            ["FEATURES.md:7: architecture SmallForCausalLM of modelhost-tiny is not declared"],
        ),
        (
            change("FEATURES.md", TINY_ROW + "\n", ""),
            ["FEATURES.md: no row for architecture TinyForCausalLM of modelhost-tiny"],
        ),
        (
            change("FEATURES.md", "| modelhost |", "| modelhost-other |"),
            [
                "FEATURES.md: no row for backend reference of modelhost",
                "FEATURES.md:13: backend reference of modelhost-other is not declared",
            ],
        ),
        (
            append("FEATURES.md", f"\n| kind | id | package | gate test |\n|---|---|---|---|\n{TINY_ROW}\n"),
            ["FEATURES.md:21: architecture TinyForCausalLM of modelhost-tiny has another row"],
        ),
        (
            remove("FEATURES.md"),
            [
                "FEATURES.md: no row for architecture SmallForCausalLM of modelhost-tiny",
                "FEATURES.md: no row for architecture TinyForCausalLM of modelhost-tiny",
                "FEATURES.md: no row for backend reference of modelhost",
            ],
        ),
        (
            remove("tests/models/test_tiny.py"),
            [
                "FEATURES.md:6: architecture TinyForCausalLM: gate test tests/models/test_tiny.py does not exist",
                "FEATURES.md:7: architecture SmallForCausalLM: gate test tests/models/test_tiny.py does not exist",
            ],
        ),
        (
            change("tests/models/test_tiny.py", "def test_tiny", "def test_other"),
            [
                "FEATURES.md:6: architecture TinyForCausalLM: gate test tests/models/test_tiny.py::test_tiny "
                "does not exist"
            ],
        ),
        (
            change("tests/test_reference.py", "def test_runs", "def test_walks"),
            [
                "FEATURES.md:13: backend reference: gate test tests/test_reference.py::TestReference::test_runs "
                "does not exist"
            ],
        ),
        (
            change("tests/models/test_tiny.py", '"SmallForCausalLM"', '"SmallForCausalLM2"'),
            ["FEATURES.md:7: architecture SmallForCausalLM: gate test tests/models/test_tiny.py does not mention "
             "SmallForCausalLM"],
        ),
        (
            change("FEATURES.md", "tests/test_reference.py::TestReference::test_runs", "by hand"),
            ['FEATURES.md:13: backend reference: the gate test must be "tests/FILE.py" or "tests/FILE.py::test_name", '
             "got 'by hand'"],
        ),
        (
            change(f"{PLUGIN}/tiny.py", "Small = Tiny", ""),
            [f"{PLACE}: architecture SmallForCausalLM: target modelhost_tiny.tiny:Small is not defined there"],
        ),
        (
            remove(f"{PLUGIN}/tiny.py"),
            [
                f"{PLACE}: architecture TinyForCausalLM: target modelhost_tiny.tiny:Tiny is not defined there",
                f"{PLACE}: architecture SmallForCausalLM: target modelhost_tiny.tiny:Small is not defined there",
            ],
        ),
        (
            change(f"{PLUGIN}/plugin.py", ':Small")', ':Small", gguf="tiny")'),
            [f"{PLACE}: GGUF architecture tiny is already declared by TinyForCausalLM"],
        ),
        (
            append("core/src/modelhost/builtin.py", "\ndef modelhost_architectures():\n    return []\n"),
            [
                "core: entry point core = modelhost.builtin: modelhost in the tree (entry point 'core') is broken: "
                "modelhost_architectures() lacks",
            ],
        ),
        (remove(f"{PLACE}/README.md"), [f"{PLACE}: README.md is missing"]),
        (
            change(f"{PLACE}/pyproject.toml", 'license = "Apache-2.0"\n', ""),
            [f"{PLACE}/pyproject.toml: project.license is missing"],
        ),
        (
            change(f"{PLACE}/pyproject.toml", 'requires-python = ">=3.11"\nde', "de"),
            [f"{PLACE}/pyproject.toml: project.requires-python is missing"],
        ),
        (
            change(f"{PLACE}/pyproject.toml", '"modelhost>=0.1,<0.2"', '"modelhost-qwen"'),
            [f"{PLACE}/pyproject.toml: project.dependencies lacks modelhost"],
        ),
        *(
            (
                change(f"{PLACE}/pyproject.toml", '"modelhost>=0.1,<0.2"', f'"{text}"'),
                [f"{PLACE}/pyproject.toml: '{text}' must be a range with both ends, such as \"modelhost>=0.1,<0.2\""],
            )
            for text in ("modelhost==0.1", "modelhost", "modelhost>=0.1", "modelhost<1", "modelhost @ file:///x")
        ),
        (
            append(f"{PLUGIN}/plugin.py", "import numpy\n"),
            [f"{ENTRY}: imports numpy, which is neither the standard library nor modelhost.api"],
        ),
        (
            append(f"{PLUGIN}/plugin.py", "1 / 0\n"),
            [f"{ENTRY}: modelhost-tiny in the tree (entry point 'tiny') is broken: ZeroDivisionError: division"],
        ),
        (
            change(f"{PLUGIN}/plugin.py", "API = (1, 0)", "from modelhost.api import API"),
            [f"{ENTRY}: the API number must be a literal such as API = (1, 0), which an upgrade does not change"],
        ),
        (
            append("core/src/modelhost/builtin.py", "import numpy\n"),
            ["core: entry point core = modelhost.builtin: imports numpy, which is neither the standard library nor"],
        ),
        *(
            (
                append(f"{PLUGIN}/tiny.py", f"{statement}\n"),
                [f"{PLUGIN}/tiny.py:5: imports {name}; plugins may import modelhost.api, modelhost.graph.ops only"],
            )
            for statement, name in (
                ("import modelhost.engine", "modelhost.engine"),
                ("from modelhost.graph import Graph", "modelhost.graph.Graph"),
                ("from modelhost import plugins", "modelhost.plugins"),
                ("import importlib; importlib.import_module('modelhost.plugins.host')", "modelhost.plugins.host"),
            )
        ),
        (
            append("core/src/modelhost/reference.py", '"""TinyForCausalLM"""\nX = "modelhost_tiny.tiny"\n'),
            ["core/src/modelhost/reference.py:3: core names modelhost_tiny, which belongs to a plugin"],
        ),
        (
            append("core/src/modelhost/reference.py", 'if "x" == "TinyForCausalLM": pass\n'),
            ["core/src/modelhost/reference.py:2: core names TinyForCausalLM, which belongs to a plugin"],
        ),
        (
            append("core/src/modelhost/reference.py", "def f():\n    from modelhost_tiny import tiny\n"),
            ["core/src/modelhost/reference.py:3: core names modelhost_tiny, which belongs to a plugin"],
        ),
        (
            change(INDEX, 'gguf = ["tiny"]', ""),
            [f"{INDEX}: gguf of [modelhost-tiny] lacks 'tiny'"],
        ),
    ],
)  # fmt: skip
def test_a_damaged_tree(tree: Path, damage: Callable[[Path], None], problems: list[str]) -> None:
    damage(tree)
    lines = check(tree)
    missing = [problem for problem in problems if not any(line.startswith(problem) for line in lines)]
    assert not missing, lines


def test_the_public_testing_kit_is_for_tests(tree: Path) -> None:
    tests = tree / PLACE / "tests"
    tests.mkdir()
    (tests / "test_tiny.py").write_text("from modelhost.testing import check\n")
    assert run(tree)[0] == 0
    (tree / PLUGIN / "tiny.py").write_text("from modelhost.testing import check as Tiny\nSmall = Tiny\n")
    assert run(tree) == (
        1,
        [
            f"{PLUGIN}/tiny.py:1: imports modelhost.testing.check; "
            "plugins may import modelhost.api, modelhost.graph.ops only"
        ],
    )


def test_an_id_declared_by_two_packages(tree: Path) -> None:
    copy = tree / "plugins/models/copy"
    shutil.copytree(tree / PLACE, copy)
    (copy / "src/modelhost_tiny").rename(copy / "src/modelhost_copy")
    for file in (copy / "pyproject.toml", copy / "src/modelhost_copy/plugin.py"):
        file.write_text(file.read_text().replace("modelhost_tiny", "modelhost_copy").replace("-tiny", "-copy"))
    lines = run(tree)[1]
    assert f"{PLACE}: architecture TinyForCausalLM is already declared by plugins/models/copy" in lines


def test_an_empty_plugin_directory(tree: Path) -> None:
    (tree / "plugins/backends/empty").mkdir(parents=True)
    assert run(tree) == (
        1,
        ["plugins/backends/empty: README.md is missing", "plugins/backends/empty: pyproject.toml is missing"],
    )
