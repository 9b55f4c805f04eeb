"""Wheels of this repository and of their dependencies, and fresh virtual environments that install from them."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.tiny_model import write_tiny_model

ROOT = Path(__file__).parents[2]
PACKAGES = ("core", "plugins/models/llama")


@dataclass(frozen=True)
class Environment:
    """A virtual environment that sees nothing but what was installed in it.

    Attributes:
        folder: of the environment.
        wheels: where pip finds distributions, and the only place where it looks.
    """

    folder: Path
    wheels: Path

    def run(self, program: str, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run one of its programs."""
        kept = {
            name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "MODELHOST_", "PIP_"))
        }
        pip = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(self.wheels), "PIP_CONFIG_FILE": os.devnull}
        own = {"MODELHOST_CACHE": str(self.folder / "cache"), "OMP_NUM_THREADS": "1"}
        command = [str(self.folder / "bin" / program), *arguments]
        environment = {**kept, **pip, **own, **variables}
        return subprocess.run(command, capture_output=True, text=True, cwd=self.folder, env=environment, timeout=300)

    def modelhost(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        return self.run("modelhost", *arguments, **variables)

    def install(self, *requirements: str) -> None:
        """Install with pip, from the wheels."""
        done = self.run("python", "-m", "pip", "install", "-q", "--disable-pip-version-check", *requirements)
        assert done.returncode == 0, done.stderr


@pytest.fixture(scope="session")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the wheels of the core, of the model family llama, and of all that they need."""
    folder = tmp_path_factory.mktemp("wheels")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q"]
    for package in PACKAGES:
        build = [*pip, "wheel", "--no-deps", "--no-build-isolation", "-w", str(folder), str(ROOT / package)]
        subprocess.run(build, check=True)
    [core] = folder.glob("modelhost-*.whl")
    subprocess.run([*pip, "download", "-d", str(folder), str(core)], check=True)
    return folder


@pytest.fixture(scope="session")
def make_environment(wheels: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Environment]:
    """Makes an environment with the core and its dependencies."""

    def make(name: str) -> Environment:
        folder = tmp_path_factory.mktemp(name)
        venv.create(folder, with_pip=True)
        environment = Environment(folder, wheels)
        environment.install("modelhost")
        return environment

    return make


@pytest.fixture(scope="session")
def tiny_llama(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A small random checkpoint of the architecture LlamaForCausalLM."""
    return str(write_tiny_model(tmp_path_factory.mktemp("llama")))
