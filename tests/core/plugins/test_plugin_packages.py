"""What ``modelhost plugins install`` and ``uninstall`` make of names, of pip's reports and of its failures."""

from __future__ import annotations

import platform
import sys
from importlib.metadata import requires, version
from importlib.resources import files
from itertools import pairwise
from pathlib import Path

import pytest

from modelhost.api import PluginError
from modelhost.plugins.packages import Change, Pip, changes_of, installed_plugin, refusal, requirement
from modelhost.plugins.packages.failures import failure_sentence
from modelhost.plugins.packages.versions import version_key
from tests.wheels import write_wheel


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("llama", "modelhost-llama"),
        ("Llama", "modelhost-llama"),
        ("modelhost_llama", "modelhost-llama"),
        ("llama>=0.1,<0.2", "modelhost-llama>=0.1,<0.2"),
        ("torch", "modelhost-torch"),
        ("Qwen3ForCausalLM", "modelhost-qwen"),
        ("hermes==0.1", "modelhost-qwen-parsers==0.1"),
        ("modelhost[serve]", "modelhost[serve]"),
        ("Acme.Models", "acme-models"),
        ("acme-models[gpu]==1.0", "acme-models[gpu]==1.0"),
        ("lama==1.0", "lama==1.0"),
        ("./dir", "./dir"),
        ("https://example.org/x-1.0.tar.gz", "https://example.org/x-1.0.tar.gz"),
        ("x-1.0-py3-none-any.whl", "x-1.0-py3-none-any.whl"),
    ],
)
def test_what_pip_is_to_install(text: str, expected: str) -> None:
    assert requirement(text) == expected


def test_a_directory_goes_before_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine").mkdir()
    monkeypatch.chdir(tmp_path)
    assert requirement("mine") == "mine"


@pytest.mark.parametrize("name", ["lama", "modelhost-lama"])
def test_a_name_much_like_a_known_one_is_not_handed_to_an_index(name: str) -> None:
    with pytest.raises(PluginError) as raised:
        requirement(name)
    known = "llama" if name == "lama" else "modelhost-llama"
    assert str(raised.value) == (
        f"there is no known plugin {name!r}. Did you mean {known} (modelhost-llama)? To install a distribution of "
        f"exactly this name, give its version too: {name}==VERSION"
    )


def test_installed_plugins_by_name() -> None:
    for name in ("llama", "modelhost-llama", "Modelhost_Llama"):
        assert installed_plugin(name).distribution == "modelhost-llama"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("modelhost", "modelhost itself is not a plugin. Remove it with: pip uninstall modelhost"),
        ("lama", "no plugin 'lama' is installed. Did you mean modelhost-llama? See: modelhost plugins"),
        ("xyzzy", "no plugin 'xyzzy' is installed. See: modelhost plugins"),
        ("numpy", "no plugin 'numpy' is installed. See: modelhost plugins"),
    ],
)
def test_what_cannot_be_removed(name: str, message: str) -> None:
    with pytest.raises(PluginError) as raised:
        installed_plugin(name)
    assert str(raised.value) == message


def test_the_order_of_versions() -> None:
    ordered = [
        "0.9",
        "1.0.dev1",
        "1.0a1",
        "1.0b2",
        "1.0rc1",
        "1.0",
        "1.0.post1",
        "1.0.1",
        "1.2",
        "1.10",
        "2.0.0",
        "2.13.0",
        "1!0.1",
    ]
    for lower, higher in pairwise(ordered):
        assert version_key(lower) < version_key(higher), (lower, higher)
    assert version_key("1.0") == version_key("1.0.0") == version_key("v1.0") == version_key("1.0+cpu")


@pytest.mark.parametrize(
    ("new", "old", "text"),
    [
        ("2.0", None, "install torch 2.0"),
        ("2.0", "1.9", "upgrade torch 1.9 to 2.0"),
        ("2.0", "2.13.0+cpu", "downgrade torch 2.13.0+cpu to 2.0"),
        ("2.0", "2.0.0", "reinstall torch 2.0"),
    ],
)
def test_changes_in_words(new: str, old: str | None, text: str) -> None:
    assert str(Change("torch", new, old)) == text


def test_changes_of_a_report() -> None:
    report = [
        {"metadata": {"name": "Zeta_Plugin", "version": "1.0", "requires_dist": ["torch<2"]}},
        {"metadata": {"name": "numpy", "version": "99.0"}},
    ]
    assert changes_of(report) == (
        Change("numpy", "99.0", version("numpy")),
        Change("zeta-plugin", "1.0", None, ("torch<2",)),
    )


@pytest.mark.parametrize("name", ["torch", "modelhost"])
def test_downgrades_of_what_others_build_on_are_refused(name: str) -> None:
    changes = (
        Change("acme", "1.0", None, (f"{name}<2.2", f"{name}==1; extra == 'old'")),
        Change(name, "2.1", "2.13"),
    )
    assert refusal(changes) == (
        f"it would downgrade {name} 2.13 to 2.1: acme 1.0 requires {name}<2.2. Nothing was changed. Install a release "
        f"that goes with {name} 2.13, or downgrade it yourself first: pip install {name}==2.1"
    )
    assert refusal((changes[0], Change(name, "3.0", "2.13"), Change("numpy", "1.0", "2.0"))) is None


ERRORS = {
    "ERROR: Package 'acme' requires a different Python: 3.11.7 not in '>=3.99'\n": (
        f"acme needs Python >=3.99; this is Python {platform.python_version()}"
    ),
    "ERROR: Ignored the following versions that require a different python version: 1.0 Requires-Python >=3.99; "
    "2.0 Requires-Python >=4\nERROR: No matching distribution found for acme<3\n": (
        f"no release of acme runs on Python {platform.python_version()}: 1.0 needs Python >=3.99; 2.0 needs Python >=4"
    ),
    "error: externally-managed-environment\n": (
        "this Python belongs to the operating system, which does not let pip change it. Use a virtual environment"
    ),
    "ERROR: Cannot install a and b because these package versions have conflicting dependencies.\n\n"
    "The conflict is caused by:\n    a 1.0 depends on torch<2\n    b 1.0 depends on torch>=2\n\nTo fix this": (
        "these requirements contradict each other:\n    a 1.0 depends on torch<2\n    b 1.0 depends on torch>=2"
    ),
    "WARNING: x\nERROR: one thing\nERROR: another\n": "pip failed: one thing\nanother",
    "": "pip failed: it gave no reason",
}


@pytest.mark.parametrize("errors", ERRORS)
def test_failures_of_pip_in_words(errors: str) -> None:
    assert failure_sentence(errors, errors) == ERRORS[errors]


def test_the_constraints_admit_what_the_tests_run_with() -> None:
    lines = files("modelhost.plugins").joinpath("constraints.txt").read_text(encoding="utf-8").splitlines()
    limits = dict(line.split(">=") for line in lines if not line.startswith("#"))
    for name, limit in limits.items():
        low, high = limit.split(",<")
        assert version_key(low) <= version_key(version(name)) < version_key(high), name
    needed = {line.split(">=")[0] for line in requires("modelhost") or () if "extra ==" not in line}
    assert {name.lower().replace("_", "-") for name in needed} <= {name.replace("_", "-") for name in limits}


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory of wheels that stands for a package index."""
    folder = tmp_path_factory.mktemp("wheels")
    write_wheel(folder, "acme-models", "1.0")
    write_wheel(folder, "acme-models", "2.0", requires=["modelhost>=0.1,<0.2", "acme-base"])
    write_wheel(folder, "acme-base", "1.5", requires=[])
    write_wheel(folder, "acme-future", "1.0", requires_python=">=3.99")
    write_wheel(folder, "acme-windows", "1.0", tag="cp311-cp311-win_amd64")
    write_wheel(folder, "acme-old", "1.0", requires=["torch<2"])
    write_wheel(folder, "torch", "1.13", requires=[])
    write_wheel(folder, "acme-newhost", "1.0", requires=["modelhost>=99"])
    return folder


@pytest.fixture
def pip(house: Path, monkeypatch: pytest.MonkeyPatch) -> Pip:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(house))
    return Pip()


def test_a_dry_run_lists_what_would_change(pip: Pip) -> None:
    changes = pip.resolve(["acme-models"]).changes
    assert [str(change) for change in changes] == ["install acme-base 1.5", "install acme-models 2.0"]
    assert pip.resolve(["modelhost"]).changes == ()


def failure(pip: Pip, *requirements: str) -> str:
    with pytest.raises(PluginError) as raised:
        pip.resolve(requirements)
    return str(raised.value)


def test_a_release_for_another_python(pip: Pip, house: Path) -> None:
    for wanted in ("acme-future", str(next(house.glob("acme_future*")))):
        assert failure(pip, wanted) == f"acme-future needs Python >=3.99; this is Python {platform.python_version()}"


def test_a_build_for_another_machine(pip: Pip, house: Path) -> None:
    text = failure(pip, "acme-windows")
    assert text.startswith(
        f"acme-windows has no build for this machine, which is CPython {platform.python_version()} on "
    )
    assert text.endswith(". There are builds for cp311-cp311-win_amd64")
    text = failure(pip, str(next(house.glob("acme_windows*"))))
    assert text.startswith("acme_windows-1.0-cp311-cp311-win_amd64.whl is for cp311-cp311-win_amd64; this is CPython ")


def test_a_distribution_that_is_not_there(pip: Pip) -> None:
    assert failure(pip, "acme-nothing") == (
        "pip finds no distribution acme-nothing in the indexes that it is set up to use"
    )


def test_constraints_of_the_release_hold(pip: Pip) -> None:
    text = failure(pip, "acme-old")
    assert text.startswith("these requirements contradict each other:\n")
    assert "acme-old 1.0 depends on torch<2" in text
    assert "The user requested (constraint) torch<3" in text


def test_a_plugin_for_another_modelhost(pip: Pip) -> None:
    assert "modelhost>=99" in failure(pip, "acme-newhost")


def test_without_pip(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\necho "{sys.executable}: No module named pip" >&2\nexit 1\n')
    python.chmod(0o755)
    with pytest.raises(PluginError) as raised:
        Pip(python=str(python)).resolve(["acme-models"])
    assert str(raised.value) == (
        f"the environment of {python} has no pip. Add it with: {python} -m ensurepip, or install the packages with the "
        "tool that made the environment, such as: uv pip install PACKAGE"
    )
