"""The core alone, installed from its wheel into a fresh virtual environment."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from .conftest import Environment

pytestmark = pytest.mark.slow

LIMIT_MB = 160
NOT_OURS = ("pip", "setuptools", "pkg_resources", "_distutils_hack", "wheel")


@pytest.fixture(scope="module")
def environment(make_environment: Callable[[str], Environment]) -> Environment:
    return make_environment("core-only")


def test_the_wheel_is_for_every_platform(environment: Environment) -> None:
    [wheel] = environment.wheels.glob("modelhost-*.whl")
    assert wheel.name.endswith("-py3-none-any.whl")


def test_it_is_small(environment: Environment) -> None:
    [packages] = environment.folder.glob("lib/python*/site-packages")
    files = (path for path in packages.rglob("*") if path.is_file())
    ours = [path for path in files if path.relative_to(packages).parts[0] not in NOT_OURS]
    megabytes = sum(path.stat().st_size for path in ours) / 1e6
    print(f"core with dependencies: {megabytes:.0f} MB")
    assert megabytes < LIMIT_MB


def test_it_drags_in_no_framework(environment: Environment) -> None:
    listed = environment.run("python", "-m", "pip", "list", "--format=json")
    names = {package["name"].lower() for package in json.loads(listed.stdout)}
    assert not names & {"torch", "transformers", "numba", "llvmlite", "scipy"}


def test_plugins_lists_the_core(environment: Environment) -> None:
    result = environment.modelhost("plugins", "--json")
    assert result.returncode == 0
    [core] = json.loads(result.stdout)["plugins"]
    assert (core["distribution"], core["state"], core["ids"]["backend"]) == ("modelhost", "ok", ["reference"])


def test_doctor_finds_nothing_wrong(environment: Environment) -> None:
    result = environment.modelhost("doctor")
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.endswith("\nmodelhost is installed properly\n")


def test_a_model_without_its_package_says_what_to_install(environment: Environment, tiny_llama: str) -> None:
    result = environment.modelhost("run", tiny_llama, "hello")
    assert result.returncode == 1
    assert "pip install modelhost-llama" in result.stderr
    assert "Traceback" not in result.stderr


def test_it_runs_a_real_model_once_its_package_is_there(
    environment: Environment, checkpoint_file: Callable[[str], object]
) -> None:
    environment.install("--no-deps", "modelhost-llama")
    arguments = ["--max-tokens", "8", "--temperature", "0", "--max-model-len", "256"]
    model = str(checkpoint_file("smollm2"))
    result = environment.modelhost("run", model, "What is the capital of France?", *arguments)
    assert result.returncode == 0, result.stderr
    assert "Paris" in result.stdout
