"""The user's choices about plugins: ``modelhost.toml`` and the environment.

    [plugins]
    enable = ["qwen", "modelhost-torch"]    # allow list; without it every installed plugin is used
    disable = ["modelhost-old"]
    replace = ["modelhost-qwen:SomeModel"]  # records that another plugin may stand in for
    timeout = 10                            # seconds that a plugin may take to declare what it has

    [plugin.torch]                          # settings of the record with this id
    threads = 4

A plugin goes by the name of its entry point, of its distribution, or ``distribution:entry_point``.
``MODELHOST_PLUGINS`` takes the place of ``enable`` (empty: none but modelhost's own); ``MODELHOST_DISABLE_PLUGINS`` and
``MODELHOST_REPLACE`` add to the other two. All are comma separated. ``MODELHOST_PLUGIN_TIMEOUT`` takes the place of
``timeout``. ``MODELHOST_PLUGIN_CACHE=0`` switches off the cache of declarations, which is kept in ``MODELHOST_CACHE``.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from modelhost.api import ConfigError
from modelhost.api.system import cache_directory

from .diagnosis import closest
from .info import CORE, Found, normalize

FILE = "modelhost.toml"
LISTS = ("enable", "disable", "replace")
KEYS = (*LISTS, "timeout")
"""The keys of the table ``[plugins]``."""
LIST_VARIABLES = {"MODELHOST_PLUGINS": "enable", "MODELHOST_DISABLE_PLUGINS": "disable", "MODELHOST_REPLACE": "replace"}
TIMEOUT_VARIABLE = "MODELHOST_PLUGIN_TIMEOUT"
CACHE_VARIABLE = "MODELHOST_PLUGIN_CACHE"


@dataclass(frozen=True, slots=True)
class HostSettings:
    """Which plugins are used, and with which settings.

    Attributes:
        enable: names of the plugins to use; ``None`` for all. Those of modelhost itself are always used.
        disable: names of the plugins not to use.
        replace: ``"distribution:id"`` of the records that another plugin may replace.
        plugin: settings by record id, as read; validated by the plugin's own model when it is loaded.
        timeout: seconds that a plugin may take to declare what it has.
        cache: directory of the cache of declarations; ``None`` for none.
        sources: where ``enable``, ``disable``, ``replace`` and ``plugin`` come from, for messages.
    """

    enable: tuple[str, ...] | None = None
    disable: tuple[str, ...] = ()
    replace: tuple[str, ...] = ()
    plugin: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    timeout: float = 10.0
    cache: Path | None = None
    sources: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in self.disable:
            if name in {CORE, "core"}:
                raise ConfigError(f"{self.source('disable')}: {name!r} is modelhost itself and cannot be disabled")

    def source(self, key: str) -> str:
        """Where the value of ``key`` was set."""
        return self.sources.get(key, f"plugins.{key}")

    def reason_disabled(self, found: Found) -> str | None:
        """Why ``found`` is not to be used, or ``None``."""
        if found.distribution == CORE:
            return None
        if match := matching(self.disable, found):
            return f"{match!r} is in {self.source('disable')}"
        if self.enable is not None and not matching(self.enable, found):
            return f"it is not in {self.source('enable')}"
        return None


def matching(names: tuple[str, ...], found: Found) -> str | None:
    """The first of ``names`` that means ``found``."""
    return next((name for name in names if name in found.names or normalize(name) == found.distribution), None)


def load_settings(
    directory: Path | None = None, environment: Mapping[str, str] | None = None, user_directory: Path | None = None
) -> HostSettings:
    """Reads the first ``modelhost.toml`` in ``directory`` (the current one) or ``user_directory``; then environment.

    Raises:
        ConfigError: the file cannot be read or parsed, or has a key or value that is not allowed; the text has the
            key's path.
    """
    environment = os.environ if environment is None else environment
    for folder in (directory or Path.cwd(), user_directory or user_config_directory(environment)):
        file = folder / FILE
        if file.is_file():
            return _with_environment(_read(file), environment)
    return _with_environment(HostSettings(), environment)


def user_config_directory(environment: Mapping[str, str]) -> Path:
    """``%APPDATA%\\modelhost`` on Windows, else ``$XDG_CONFIG_HOME/modelhost`` or ``~/.config/modelhost``."""
    base = environment.get("APPDATA" if os.name == "nt" else "XDG_CONFIG_HOME")
    return Path(base) / CORE if base else Path.home() / ".config" / CORE


def _read(file: Path) -> HostSettings:
    import tomllib

    try:
        data = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"{file}: cannot be read as TOML: {error}") from error
    _check_keys(file, "", data, ("plugins", "plugin"))
    plugins = _table(file, "plugins", data.get("plugins", {}))
    _check_keys(file, "plugins.", plugins, KEYS)
    values: dict[str, Any] = {key: _strings(file, f"plugins.{key}", plugins[key]) for key in LISTS if key in plugins}
    if "timeout" in plugins:
        values["timeout"] = _seconds(f"{file}: plugins.timeout", plugins["timeout"])
    plugin = _table(file, "plugin", data.get("plugin", {}))
    for id, settings in plugin.items():
        _table(file, f"plugin.{id}", settings)
    sources = {key: f"plugins.{key} of {file}" for key in KEYS} | {"plugin": str(file)}
    return HostSettings(**values, plugin=plugin, sources=sources)


def _check_keys(file: Path, prefix: str, table: Mapping[str, object], known: tuple[str, ...]) -> None:
    for key in table:
        if key not in known:
            best = closest(key, known, 1)[0]
            raise ConfigError(f"{file}: unknown key {prefix}{key}; did you mean {prefix}{best}?")


def _table(file: Path, path: str, value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ConfigError(f"{file}: {path} must be a table, got {value!r}")
    return value


def _strings(file: Path, path: str, value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise ConfigError(f"{file}: {path} must be a list of strings, got {value!r}")
    return tuple(value)


def _seconds(where: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < float("inf"):
        raise ConfigError(f"{where} must be a number of seconds above 0, got {value!r}")
    return float(value)


def _with_environment(settings: HostSettings, environment: Mapping[str, str]) -> HostSettings:
    changes: dict[str, Any] = {}
    sources = dict(settings.sources)
    for variable, key in LIST_VARIABLES.items():
        if variable in environment:
            names = tuple(name.strip() for name in environment[variable].split(",") if name.strip())
            earlier = () if key == "enable" else getattr(settings, key)
            changes[key] = (*earlier, *names)
            sources[key] = f"{variable} or {settings.source(key)}" if earlier else variable
    if TIMEOUT_VARIABLE in environment:
        changes["timeout"] = _seconds(TIMEOUT_VARIABLE, _number(environment[TIMEOUT_VARIABLE]))
    if environment.get(CACHE_VARIABLE, "1") not in {"", "0"}:
        changes["cache"] = cache_directory(environment)
    return replace(settings, **changes, sources=sources)


def _number(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text
