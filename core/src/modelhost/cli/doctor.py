"""``modelhost doctor``: this machine and this installation. No failure of one section hides another."""

from __future__ import annotations

import os
import platform
import re
import sys
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .loaded import boot_plugins
from .options import JsonFlag, NoPluginsFlag
from .terminal import print_json, print_line, print_pairs

if TYPE_CHECKING:
    from modelhost.plugins import Registration, Registry

Facts = Iterator[tuple[str, str]]
_REINSTALL = "Run: pip install --force-reinstall modelhost"
_REQUIREMENT = re.compile(r"[\w.-]+")


def doctor(json: JsonFlag = False, no_plugins: NoPluginsFlag = False) -> int:
    """Check this machine and this installation. The exit code is 1 when modelhost itself is not installed properly."""
    patient = _Patient(no_plugins)
    sections = {title: list(_guarded(facts)) for title, facts in patient.sections().items()}
    problems = patient.problems()
    if json:
        print_json({"problems": problems, **{title: dict(facts) for title, facts in sections.items()}})
    else:
        for title, facts in sections.items():
            print_pairs(title, facts)
            print_line("")
        for problem in problems:
            print_line(f"problem: {problem}")
        print_line("modelhost is not installed properly" if problems else "modelhost is installed properly")
    return 1 if problems else 0


def _guarded(facts: Callable[[], Facts]) -> Facts:
    """The facts of a section up to the first that cannot be had, and why it cannot."""
    try:
        yield from facts()
    except (Exception, SystemExit) as error:
        yield "not known", f"{type(error).__name__}: {error}"


class _Patient:
    def __init__(self, no_plugins: bool) -> None:
        self.no_plugins = no_plugins

    @cached_property
    def registry(self) -> Registry:
        return boot_plugins(no_plugins=self.no_plugins)

    def sections(self) -> dict[str, Callable[[], Facts]]:
        return {
            "modelhost": self._modelhost,
            "machine": self._machine,
            "plugins": self._plugins,
            "requirements": self._requirements,
            "backends": self._backends,
            "caches": self._caches,
            "files": self._files,
        }

    def problems(self) -> list[str]:
        """What is wrong with the installation of modelhost itself."""
        from modelhost.api import ConfigError

        found = [] if _requirements() else [f"it has no package metadata. {_REINSTALL}"]
        found += [f"{name}, which it needs, is not installed. Run: pip install {name}" for name in _missing()]
        try:
            own = [plugin for plugin in self.registry.plugins if plugin.distribution == "modelhost"]
        except ConfigError:  # the user's, and told where the plugins are listed
            return found
        found += [plugin.error for plugin in own if plugin.error]
        return found if own else [*found, f"its entry points are missing. {_REINSTALL}"]

    def _modelhost(self) -> Facts:
        from importlib.metadata import version

        from modelhost.api import API

        yield "version", version("modelhost")
        yield "plugin API", ".".join(map(str, API))
        yield "location", str(Path(__file__).parent.parent)
        yield "Python", f"{platform.python_version()} ({platform.python_implementation()}), {sys.executable}"
        yield "packages", ", ".join(f"{name} {version(name)}" for name in _requirements() if name not in _missing())

    def _machine(self) -> Facts:
        from modelhost.api.system import available_memory
        from modelhost.engine.memory import gib

        from .host_facts import accelerators, cores, cpu_features, cpu_model

        yield "platform", platform.platform()
        yield "processor", cpu_model()
        if features := cpu_features():
            yield "instructions", features
        yield "cores", cores()
        yield "accelerators", accelerators()
        yield "memory", f"{gib(available_memory())} available"

    def _plugins(self) -> Facts:
        from .plugins import api_text

        for plugin in self.registry.plugins:
            version = f"{plugin.version}{', editable' if plugin.editable else ''}, API {api_text(plugin)}"
            state = f"{plugin.state}: {plugin.error}" if plugin.error else plugin.state
            yield f"{plugin.distribution}, {plugin.entry_point}", f"{version}; {state}"
        for warning in self.registry.warnings:
            yield "warning", warning

    def _requirements(self) -> Facts:
        """Plugins that are tied to one modelhost, or to none, instead of a range."""
        from modelhost.plugins.requirements import requirement_problems

        problems = requirement_problems(self.registry.plugins)
        yield from problems.items() if problems else [("modelhost", "every plugin requires a range of it")]

    def _backends(self) -> Facts:
        from modelhost.api import Backend, ModelHostError
        from modelhost.plugins import select_backend

        for id, claims in self.registry.claims(Backend).items():
            for claim in claims:
                yield id, f"{claim.owner}, on {', '.join(claim.record.devices)}: {_probed(claim)}"
        try:
            yield "by default", select_backend(self.registry).chosen.id
        except ModelHostError as error:
            yield "by default", f"none: {error}"

    def _caches(self) -> Facts:
        from huggingface_hub.constants import HF_HUB_CACHE

        from modelhost.api.system import cache_directory

        yield "Hugging Face", _directory(Path(HF_HUB_CACHE))
        yield "modelhost", _directory(cache_directory())
        use = self.registry.cache
        if use is None:
            yield "declarations", "switched off"
            return
        served = f"{use.used} of {len(self.registry.plugins)} plugins were not imported"
        yield "declarations", f"{use.file}: {use.problem or served}"

    def _files(self) -> Facts:
        from modelhost.plugins.settings import FILE, user_config_directory

        candidates = [folder / FILE for folder in (Path.cwd(), user_config_directory(os.environ))]
        used = next((str(file) for file in candidates if file.is_file()), None)
        yield "configuration", used or f"none; looked for {' and '.join(map(str, candidates))}"
        for name in sorted(os.environ):
            if name.startswith("MODELHOST_"):
                yield name, os.environ[name]


def _directory(path: Path) -> str:
    """The path and what lies in it."""
    if not path.is_dir():
        return f"{path} (does not exist yet)"
    from modelhost.engine.memory import gib

    size = sum(file.lstat().st_size for file in path.rglob("*") if file.is_file() and not file.is_symlink())
    return f"{path} ({gib(size)})"


def _probed(claim: Registration[Any]) -> str:
    """Whether a backend can be used here, and why not."""
    from modelhost.plugins import load_target

    if claim.record.probe is None:
        return "usable"
    try:
        answer = load_target(claim, claim.record.probe)()
    except (Exception, SystemExit) as error:
        return f"its probe failed: {type(error).__name__}: {error}"
    return "usable" if answer is None else f"not usable: {answer}"


def _requirements() -> list[str]:
    """Names of the distributions that modelhost needs in any case; empty when it has no metadata."""
    from importlib.metadata import PackageNotFoundError, requires

    try:
        lines = requires("modelhost") or []
    except PackageNotFoundError:
        return []
    return [match[0] for line in lines if "extra ==" not in line and (match := _REQUIREMENT.match(line))]


def _missing() -> list[str]:
    from importlib.metadata import PackageNotFoundError, version

    missing = []
    for name in _requirements():
        try:
            version(name)
        except PackageNotFoundError:
            missing.append(name)
    return missing
