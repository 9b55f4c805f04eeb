"""The one way in: finds, imports and registers all plugins."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from modelhost.api import Record

from .declaration import declare, disabled
from .diagnosis import closest
from .discovery import discover
from .info import CORE, Found, PluginInfo, Registration
from .registry import Registry, suggest
from .settings import HostSettings, load_settings, matching


def boot(
    *, no_plugins: bool = False, settings: HostSettings | None = None, path: Sequence[str] | None = None
) -> Registry:
    """Discovers the plugins and returns what they declare. No record's target is imported.

    A plugin that is broken, incompatible or disabled does not raise; its :class:`PluginInfo` says why. Each call scans
    anew: call once for each process and pass the registry, or a :class:`~modelhost.plugins.Plan`, on.

    Args:
        no_plugins: use modelhost's own declarations only.
        settings: what to use instead of ``modelhost.toml`` and the environment.
        path: directories to search for distributions; ``sys.path`` when ``None``.

    Raises:
        ConfigError: ``modelhost.toml`` or the environment has a key or value that is not allowed.
    """
    import pluggy

    from modelhost.api import hookspecs

    settings = load_settings() if settings is None else settings
    manager = pluggy.PluginManager(hookspecs.PROJECT)
    manager.add_hookspecs(hookspecs)
    found = discover(path)
    plugins: list[PluginInfo] = []
    registrations: list[Registration[Record]] = []
    for entry_point in found:
        info, declared = _admit(manager, entry_point, settings, no_plugins)
        plugins.append(info)
        registrations.extend(declared)
    warnings = [*_warnings(found, settings, plugins), *_unclaimed_settings(settings, registrations)]
    return Registry(plugins, registrations, settings, warnings)


def _admit(
    manager: Any, found: Found, settings: HostSettings, no_plugins: bool
) -> tuple[PluginInfo, tuple[Registration[Record], ...]]:
    if no_plugins and found.distribution != CORE:
        return disabled(found, "plugins are switched off by --no-plugins"), ()
    reason = settings.reason_disabled(found)
    return (disabled(found, reason), ()) if reason else declare(manager, found)


def _warnings(found: tuple[Found, ...], settings: HostSettings, plugins: list[PluginInfo]) -> Iterator[str]:
    if not any(entry_point.distribution == CORE for entry_point in found):
        yield f"modelhost has no entry points of its own: it is not installed properly. Run: pip install {CORE}"
    for key, names in (("enable", settings.enable or ()), ("disable", settings.disable)):
        for name in names:
            if not any(matching((name,), entry_point) for entry_point in found):
                yield f"{settings.source(key)}: no plugin {name!r} is installed{suggest(name, plugins)}"


def _unclaimed_settings(settings: HostSettings, registrations: list[Registration[Record]]) -> Iterator[str]:
    ids = {registration.id for registration in registrations}
    for id in settings.plugin:
        if id not in ids:
            best = closest(id, ids, 1)
            hint = f"; did you mean plugin.{best[0]}?" if best else ""
            yield f"{settings.source('plugin')}: plugin.{id}: no plugin in use declares {id!r}{hint}"
