"""The packages in examples/, installed beside ours, and their own tests."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from modelhost.testing.project import Project

EXAMPLES = Path(__file__).parents[2] / "examples"
PACKAGES = sorted(path.parent.name for path in EXAMPLES.glob("*/pyproject.toml"))
QUICK = "third_party_model"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory that has all of them installed."""
    folder = tmp_path_factory.mktemp("examples")
    install = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "-q",
        "--no-deps",
        "--no-build-isolation",
        "--target",
        str(folder),
    ]
    subprocess.run([*install, *(str(EXAMPLES / name) for name in PACKAGES)], check=True)
    return folder


def test_every_kind_has_one() -> None:
    kinds = {record["kind"] for name in PACKAGES for record in Project(EXAMPLES / name).records}
    assert kinds == {"architecture", "backend", "tool parser", "speculator"}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name == QUICK else [pytest.mark.slow]) for name in PACKAGES]
)
def test_its_tests_pass(site: Path, name: str) -> None:
    environment = {**os.environ, "PYTHONPATH": str(site), "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(EXAMPLES / name / "tests")]
    done = subprocess.run(command, capture_output=True, text=True, cwd=site, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "passed" in done.stdout or done.stdout.rstrip().endswith("[100%]")


def test_the_model_is_short() -> None:
    [model] = (EXAMPLES / "third_party_model").rglob("gpt2.py")
    assert len(model.read_text().splitlines()) < 120
