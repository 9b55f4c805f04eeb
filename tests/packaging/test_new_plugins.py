"""A new plugin of every kind, built, installed together in a fresh environment without a framework, and tested."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from modelhost.scaffold import KINDS

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with an environment that has the core, and new packages made there, all installed as wheels."""
    folder = tmp_path_factory.mktemp("new-plugins")
    venv.create(folder / "venv", with_pip=True)
    install = [str(folder / "venv/bin/python"), "-m", "pip", "install", "-q"]
    [core] = wheels(folder / "core", ROOT / "core")
    subprocess.run([*install, f"{core}[testing]"], check=True)
    for kind in KINDS:
        new = [str(folder / "venv/bin/modelhost"), "plugin", "new", kind, f"new-{kind}"]
        subprocess.run(new, check=True, cwd=folder, stdout=subprocess.DEVNULL)
    built = wheels(folder / "plugins", *(folder / f"modelhost-new-{kind}" for kind in KINDS))
    assert len(built) == len(KINDS)
    subprocess.run([*install, *map(str, built)], check=True)
    return folder


def wheels(target: Path, *sources: Path) -> list[Path]:
    build = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", str(target)]
    subprocess.run([*build, *map(str, sources)], check=True)
    return sorted(target.glob("*.whl"))


@pytest.mark.parametrize("kind", KINDS)
def test_its_tests_pass(environment: Path, kind: str) -> None:
    done = subprocess.run(
        [str(environment / "venv/bin/python"), "-m", "pytest", "-q"],
        capture_output=True,
        text=True,
        cwd=environment / f"modelhost-new-{kind}",
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "passed" in done.stdout and "skipped" not in done.stdout


def test_all_are_listed(environment: Path) -> None:
    command = [str(environment / "venv/bin/modelhost"), "plugins", "--json"]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    for kind in KINDS:
        assert f'"modelhost-new-{kind}"' in listed
    assert '"broken"' not in listed
