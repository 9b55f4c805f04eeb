"""Real distributions, written by hand into a directory that is on ``sys.path``."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from modelhost.plugins import HostSettings, PluginInfo, Registry, boot

HEADER = "from modelhost.api import *\nfrom modelhost.api import hookimpl\nAPI = (1, 0)\n"


class Site:
    """A directory that distributions are installed in."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def install(
        self,
        name: str,
        version: str = "1.0",
        entry_points: Mapping[str, str] | None = None,
        modules: Mapping[str, str] | None = None,
        *,
        editable: bool = False,
    ) -> Path:
        """Writes a ``dist-info`` and the modules of a distribution; returns the ``dist-info``."""
        info = self.directory / f"{name.replace('-', '_')}-{version}.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n\nReadme.\n")
        lines = [f"{key} = {value}" for key, value in (entry_points or {}).items()]
        (info / "entry_points.txt").write_text("\n".join(["[modelhost]", *lines, ""]))
        (info / "RECORD").write_text("")
        if editable:
            (info / "direct_url.json").write_text(json.dumps({"url": "file:///src", "dir_info": {"editable": True}}))
        for module, source in (modules or {}).items():
            self.write(module, source)
        importlib.invalidate_caches()
        return info

    def write(self, module: str, source: str) -> Path:
        """Writes one module, and the packages around it."""
        file = self.directory.joinpath(*module.split(".")).with_suffix(".py")
        file.parent.mkdir(parents=True, exist_ok=True)
        if file.parent != self.directory:
            (file.parent / "__init__.py").touch()
        file.write_text(dedent(source))
        return file

    def plugin(self, name: str, body: str = "", *, header: str = HEADER, version: str = "1.0", **more: str) -> Path:
        """Installs ``modelhost-NAME`` with entry point NAME; ``body`` follows the imports and the API number.

        ``more`` are modules of its package by name. Returns the declaring module's file.
        """
        package = f"modelhost_{name}"
        modules = {f"{package}.plugin": header + dedent(body)}
        modules |= {f"{package}.{module}": source for module, source in more.items()}
        self.install(f"modelhost-{name}", version, {name: f"{package}.plugin"}, modules)
        return self.directory / package / "plugin.py"

    def backend(self, name: str, arguments: str = "", version: str = "1.0", **more: str) -> Path:
        """Installs ``modelhost-NAME`` that declares backend NAME."""
        record = f'Backend("{name}", target="modelhost_{name}.impl:Impl", {arguments})'
        more.setdefault("impl", "class Impl: pass\n")
        return self.plugin(name, f"@hookimpl\ndef modelhost_backends():\n    yield {record}\n", version=version, **more)

    def architecture(self, name: str, id: str, arguments: str = "") -> Path:
        """Installs ``modelhost-NAME`` that declares architecture ID."""
        record = f'Architecture("{id}", target="modelhost_{name}.impl:Impl", {arguments})'
        body = f"@hookimpl\ndef modelhost_architectures():\n    yield {record}\n"
        return self.plugin(name, body, impl="class Impl: pass\n")

    def boot(self, *, no_plugins: bool = False, **settings: Any) -> Registry:
        """Boots with the distributions of this directory only."""
        return boot(no_plugins=no_plugins, settings=HostSettings(**settings), path=[str(self.directory)])

    def info(self, name: str, **settings: Any) -> PluginInfo:
        """The info of entry point NAME after a boot."""
        return next(plugin for plugin in self.boot(**settings).plugins if plugin.entry_point == name)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """An empty directory with modelhost itself. Installed plugins are out of the way until the test ends."""
    for name in [name for name in sys.modules if name.startswith("modelhost_")]:
        monkeypatch.delitem(sys.modules, name)
    directory = tmp_path / "site"
    monkeypatch.syspath_prepend(str(directory))
    before = set(sys.modules)
    made = Site(directory)
    made.install("modelhost", "0.1.0", {"core": "modelhost.builtin"})
    yield made
    for name in set(sys.modules) - before:
        if str(directory) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]
