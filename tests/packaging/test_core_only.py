"""The core alone, installed from its wheel into a fresh virtual environment."""

from __future__ import annotations

import json
import subprocess
import sys
import venv
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
LIMIT_MB = 160
NOT_OURS = ("pip", "setuptools", "pkg_resources", "_distutils_hack", "wheel")


@pytest.fixture(scope="module")
def environment(tmp_path_factory) -> Path:
    """The directory of an environment that has the core's wheel and its dependencies."""
    folder = tmp_path_factory.mktemp("core-only")
    build = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", str(folder)]
    subprocess.run([*build, str(ROOT / "core")], check=True)
    venv.create(folder / "venv", with_pip=True)
    [wheel] = folder.glob("*.whl")
    assert wheel.name.endswith("-py3-none-any.whl")
    subprocess.run([str(folder / "venv/bin/python"), "-m", "pip", "install", "-q", str(wheel)], check=True)
    return folder / "venv"


def run(environment: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [str(environment / "bin/modelhost"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=environment)


def test_it_is_small(environment):
    [packages] = environment.glob("lib/python*/site-packages")
    files = (path for path in packages.rglob("*") if path.is_file())
    ours = [path for path in files if path.relative_to(packages).parts[0] not in NOT_OURS]
    megabytes = sum(path.stat().st_size for path in ours) / 1e6
    print(f"core with dependencies: {megabytes:.0f} MB")
    assert megabytes < LIMIT_MB


def test_it_drags_in_no_framework(environment):
    command = [str(environment / "bin/python"), "-m", "pip", "list", "--format=json"]
    listed = subprocess.run(command, check=True, capture_output=True, text=True)
    names = {package["name"].lower() for package in json.loads(listed.stdout)}
    assert not names & {"torch", "transformers", "numba", "llvmlite", "scipy"}


def test_plugins_lists_the_core(environment):
    result = run(environment, "plugins", "--json")
    assert result.returncode == 0
    assert '"modelhost"' in result.stdout


def test_a_model_without_its_package_says_what_to_install(environment, checkpoint_file):
    result = run(environment, "run", str(checkpoint_file("smollm2")), "hello")
    assert result.returncode == 1
    assert "pip install modelhost-llama" in result.stderr
    assert "Traceback" not in result.stderr


def test_it_runs_a_model_once_its_package_is_there(environment, checkpoint_file):
    python = str(environment / "bin/python")
    subprocess.run([python, "-m", "pip", "install", "-q", "hatchling", "editables"], check=True)
    subprocess.run(
        [python, "-m", "pip", "install", "-q", "--no-build-isolation", "--no-deps", str(ROOT / "plugins/models/llama")],
        check=True,
    )
    arguments = ["--max-tokens", "8", "--temperature", "0", "--max-model-len", "256"]
    result = run(environment, "run", str(checkpoint_file("smollm2")), "What is the capital of France?", *arguments)
    assert result.returncode == 0, result.stderr
    assert "Paris" in result.stdout
