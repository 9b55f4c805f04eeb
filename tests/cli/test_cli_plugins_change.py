"""``modelhost plugins install`` and ``uninstall``, as far as they change nothing. See tests/packaging for changes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.wheels import write_wheel

from .conftest import Cli, install, run_process


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An index with one plugin in two versions, and one that needs an old torch."""
    for version in ("1.0", "1.1"):
        write_wheel(tmp_path, "acme-models", version)
    write_wheel(tmp_path, "acme-old", requires=["torch<2.7"])
    write_wheel(tmp_path, "torch", "2.6.0", requires=[])
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))


def test_a_dry_run(cli: Cli, index: None) -> None:
    result = cli("plugins", "install", "acme-models", "--dry-run")
    assert (result.code, result.out, result.err) == (0, "would install acme-models 1.1\n", "")
    data = json.loads(cli("plugins", "install", "acme-models==1.0", "--dry-run", "--json").out)
    change = {"name": "acme-models", "version": "1.0", "installed": None, "change": "install"}
    assert data == {"dry_run": True, "changes": [change], "plugins": []}


def test_a_downgrade_of_torch_is_refused(cli: Cli, index: None) -> None:
    result = cli("plugins", "install", "acme-old")
    assert (result.code, result.out) == (1, "")
    assert result.err.startswith("error: it would downgrade torch ")
    assert " to 2.6.0: acme-old 1.0 requires torch<2.7. Nothing was changed. " in result.err


def test_nothing_to_do(cli: Cli, index: None) -> None:
    result = cli("plugins", "install", "llama")
    assert (result.code, result.out) == (0, "nothing to do: all of it is installed\n")


def test_what_is_wrong_with_a_name(cli: Cli) -> None:
    assert cli("plugins", "install").code == 2
    assert cli("plugins", "uninstall").code == 2
    result = cli("plugins", "install", "lama")
    assert result.code == 1
    assert result.err.startswith("error: there is no known plugin 'lama'. Did you mean llama (modelhost-llama)?")
    result = cli("plugins", "uninstall", "lama")
    assert (result.code, result.out) == (1, "")
    assert result.err == "error: no plugin 'lama' is installed. Did you mean modelhost-llama? See: modelhost plugins\n"


def test_what_would_be_removed(cli: Cli) -> None:
    assert cli("plugins", "uninstall", "llama", "--dry-run").out == "would remove modelhost-llama 0.1.0\n"
    data = json.loads(cli("plugins", "uninstall", "llama", "--dry-run", "--json").out)
    assert data == {"dry_run": True, "removed": [{"name": "modelhost-llama", "version": "0.1.0"}]}


def test_no_plugin_is_imported(tmp_path: Path, index: None) -> None:
    marker = tmp_path / "imported"
    install(tmp_path, "acme-noisy", "acme_noisy", f"open({str(marker)!r}, 'w').close()\n")
    environment = {"PYTHONPATH": str(tmp_path)}
    done = run_process("plugins", "uninstall", "acme-noisy", "--dry-run", env=environment)
    assert (done.code, done.out) == (0, "would remove acme-noisy 1.0\n")
    assert run_process("plugins", "install", "acme-models", "--dry-run", env=environment).code == 0
    assert not marker.exists()


@pytest.mark.parametrize("command", ["install", "uninstall"])
def test_help(cli: Cli, command: str) -> None:
    result = cli("plugins", command, "--help")
    assert (result.code, result.err) == (0, "")
    assert f"Usage: modelhost plugins {command} [OPTIONS]" in result.out
