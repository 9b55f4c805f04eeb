"""``modelhost plugins`` and ``modelhost doctor``, also when every plugin is broken."""

from __future__ import annotations

import json
from importlib.metadata import entry_points, version
from pathlib import Path
from typing import Any

import pytest

from .conftest import Cli, Result, install, run_process

BROKEN = {
    "raises": "raise RuntimeError('broken on purpose')\n",
    "exits": "raise SystemExit(3)\n",
    "misspelt": "def (\n",
    "imports": "import a_module_that_nobody_has\n",
    "talks": "print('a line that is no JSON')\nfrom modelhost.api import hookimpl\nAPI = (1, 0)\n",
    "future": "API = (99, 0)\n",
}


@pytest.fixture()
def broken(tmp_path: Path) -> dict[str, str]:
    """Environment in which all installed plugins are broken, and some more that break in other ways are there."""
    for name, source in BROKEN.items():
        install(tmp_path, f"broken-{name}", f"broken_{name}", source)
    for entry_point in entry_points(group="modelhost"):
        if entry_point.module != "modelhost.builtin":
            package = tmp_path / entry_point.module.partition(".")[0]
            package.mkdir()
            (package / "__init__.py").write_text(BROKEN["raises"])
    return {"PYTHONPATH": str(tmp_path)}


def listed(result: Result) -> dict[str, Any]:
    assert result.code == 0
    return {plugin["distribution"]: plugin for plugin in json.loads(result.out)["plugins"]}


def test_plugins_table(cli: Cli) -> None:
    result = cli("plugins")
    assert (result.code, result.err) == (0, "")
    (core,) = [line for line in result.out.splitlines() if line.split()[:2] == ["core", "modelhost"]]
    assert core.split()[2:4] == [version("modelhost"), "1.0"]
    assert " ok " in core
    assert core.split()[4:6] == ["backend", "reference"]
    assert "builtin.py" in core
    header = next(line for line in result.out.splitlines() if line.strip())
    assert header.split() == [
        "plugin",
        "distribution",
        "version",
        "API",
        "kind",
        "ids",
        "import",
        "ms",
        "state",
        "location",
    ]
    assert "encoding " in result.out
    assert "architecture LlamaForCausalLM, MistralForCausalLM" in " ".join(result.out.split())


def test_times_of_plugins_that_were_not_imported_are_in_brackets(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MODELHOST_PLUGIN_CACHE", "1")
    monkeypatch.setenv("MODELHOST_CACHE", str(tmp_path))
    first = listed(cli("plugins", "--json"))
    assert not any(plugin["cached"] for plugin in first.values())
    second = listed(cli("plugins", "--json"))
    assert second["modelhost-llama"]["cached"]
    assert second["modelhost-llama"]["import_ms"] == first["modelhost-llama"]["import_ms"]
    assert f"({first['modelhost-llama']['import_ms']:.1f})" in cli("plugins").out
    assert not any(plugin["cached"] for plugin in listed(cli("plugins", "--refresh", "--json")).values())
    data = json.loads(cli("doctor", "--json").out)["caches"]
    assert data["modelhost"].startswith(f"{tmp_path} (0.")
    assert data["declarations"].startswith(f"{tmp_path}/declarations-")
    assert data["declarations"].endswith("plugins were not imported")


def test_doctor_when_the_cache_is_off(cli: Cli) -> None:
    assert json.loads(cli("doctor", "--json").out)["caches"]["declarations"] == "switched off"


def test_doctor_names_plugins_that_are_tied_to_one_modelhost(tmp_path: Path) -> None:
    install(tmp_path, "tied", "tied", BROKEN["talks"])
    with (tmp_path / "tied-1.0.dist-info" / "METADATA").open("a") as metadata:
        metadata.write("Requires-Dist: modelhost==0.1.0\n")
    data = json.loads(run_process("doctor", "--json", env={"PYTHONPATH": str(tmp_path)}).out)
    assert data["requirements"] == {
        "tied": "requires 'modelhost==0.1.0': one version of modelhost, so neither can be upgraded alone. It should "
        "require a range that ends before the next release that breaks it, such as modelhost>=0.1,<0.2"
    }


def test_plugins_json(cli: Cli) -> None:
    plugins = listed(cli("plugins", "--json"))
    assert plugins["modelhost"]["ids"]["backend"] == ["reference"]
    assert plugins["modelhost-llama"]["state"] == "ok"
    assert plugins["modelhost-llama"]["api"] == [1, 0]


def test_no_plugins(cli: Cli) -> None:
    plugins = listed(cli("plugins", "--no-plugins", "--json"))
    assert plugins.pop("modelhost")["state"] == "ok"
    assert {plugin["state"] for plugin in plugins.values()} == {"disabled"}
    assert "plugins are switched off by --no-plugins" in cli("plugins", "--no-plugins").out


def test_warnings_of_the_registry(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MODELHOST_DISABLE_PLUGINS", "lama")
    result = cli("plugins")
    assert result.code == 0
    assert result.err == "warning: MODELHOST_DISABLE_PLUGINS: no plugin 'lama' is installed; did you mean 'llama'?\n"


def test_plugins_lists_broken_ones_with_the_cause(broken: dict[str, str]) -> None:
    plugins = listed(run_process("plugins", "--json", env=broken))
    assert plugins["modelhost"]["state"] == "ok"
    states = {name: plugins[f"broken-{name}"]["state"] for name in BROKEN}
    assert states.pop("future") == "incompatible"
    assert states.pop("talks") == "ok"
    assert set(states.values()) == {"broken"}
    assert plugins["modelhost-llama"]["state"] == "broken"
    text = run_process("plugins", env=broken)
    assert text.code == 0
    assert "broken-raises, broken-raises: " in text.out
    assert "RuntimeError: broken on purpose" in text.out
    assert "it needs the module 'a_module_that_nobody_has', which is not installed" in text.out


@pytest.mark.parametrize("option", ["--version", "--help"])
def test_version_and_help_with_every_plugin_broken(broken: dict[str, str], option: str) -> None:
    result = run_process(option, env=broken)
    assert (result.code, result.err) == (0, "")


def test_doctor(cli: Cli) -> None:
    result = cli("doctor")
    assert (result.code, result.err) == (0, "")
    assert result.out.endswith("\nmodelhost is installed properly\n")
    assert f"  version     {version('modelhost')}\n" in result.out


def test_doctor_json(cli: Cli) -> None:
    data = json.loads(cli("doctor", "--json").out)
    assert data["problems"] == []
    assert set(data["machine"]) >= {"platform", "processor", "cores", "memory"}
    assert data["machine"]["memory"].endswith(" available")
    assert data["backends"]["reference"] == f"modelhost {version('modelhost')}, on cpu: usable"
    assert data["plugins"]["modelhost-llama, llama"].endswith("API 1.0; ok")
    assert "numpy" in data["modelhost"]["packages"]
    assert "not known" not in {label for section in data.values() if isinstance(section, dict) for label in section}


def test_doctor_with_every_plugin_broken(broken: dict[str, str]) -> None:
    result = run_process("doctor", "--json", env=broken)
    assert result.code == 0
    data = json.loads(result.out)
    assert "RuntimeError: broken on purpose" in data["plugins"]["modelhost-llama, llama"]
    assert "incompatible: " in data["plugins"]["broken-future, broken-future"]
    assert data["backends"]["reference"].endswith("usable")


def test_doctor_says_why_a_backend_cannot_be_used(tmp_path: Path) -> None:
    source = (
        "from modelhost.api import Backend, hookimpl\nAPI = (1, 0)\n@hookimpl\ndef modelhost_backends():\n"
        "    yield Backend('absent', target='odd:X', probe='odd_probes:absent')\n"
        "    yield Backend('failing', target='odd:X', probe='odd_probes:failing')\n"
    )
    install(tmp_path, "odd-backends", "odd", source)
    probes = "def absent(): return 'there is no such chip'\ndef failing(): raise OSError('driver fell over')\n"
    (tmp_path / "odd_probes.py").write_text(probes)
    result = run_process("doctor", "--json", env={"PYTHONPATH": str(tmp_path)})
    assert result.code == 0
    backends = json.loads(result.out)["backends"]
    assert backends["absent"] == "odd-backends 1.0, on cpu: not usable: there is no such chip"
    assert backends["failing"] == "odd-backends 1.0, on cpu: its probe failed: OSError: driver fell over"
    assert backends["reference"].endswith("usable")


def test_doctor_goes_on_when_a_section_fails(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    from modelhost.cli import host_facts

    def fail() -> str:
        raise OSError("no such file")

    monkeypatch.setattr(host_facts, "cores", fail)
    result = cli("doctor", "--json")
    assert result.code == 0
    data = json.loads(result.out)
    assert data["machine"]["not known"] == "OSError: no such file"
    assert data["backends"]["reference"].endswith("usable")


def test_configuration_that_cannot_be_read(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "modelhost.toml").write_text("[plugins]\nenabel = []\n")
    monkeypatch.chdir(tmp_path)
    result = cli("plugins")
    assert result.code == 1
    assert result.err == (
        f"error: {tmp_path}/modelhost.toml: unknown key plugins.enabel; did you mean plugins.enable?\n"
    )
    doctor = cli("doctor")
    assert doctor.code == 0
    assert "unknown key plugins.enabel" in doctor.out


def test_doctor_when_modelhost_is_misinstalled(tmp_path: Path) -> None:
    """Another metadata directory that comes first on the path needs a distribution that nobody has."""
    metadata = tmp_path / "modelhost-0.1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: modelhost\nVersion: 0.1.0\nRequires-Dist: a-package-that-nobody-has>=1\n"
    )
    (metadata / "entry_points.txt").write_text("[modelhost]\ncore = modelhost.builtin\n")
    result = run_process("doctor", env={"PYTHONPATH": str(tmp_path)})
    assert result.code == 1
    assert (
        "problem: a-package-that-nobody-has, which it needs, is not installed. "
        "Run: pip install a-package-that-nobody-has\n"
    ) in result.out
    assert result.out.endswith("\nmodelhost is not installed properly\n")
