"""The one way in: finds, imports and registers all plugins."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from modelhost.api import Record

from .diagnosis import closest
from .info import CORE, Found, PluginInfo, Registration
from .registry import Registry, suggest
from .settings import HostSettings, load_settings, matching

if TYPE_CHECKING:
    import pluggy

    from .cache import DeclarationCache, Declared


def boot(
    *,
    no_plugins: bool = False,
    settings: HostSettings | None = None,
    path: Sequence[str] | None = None,
    refresh: bool = False,
) -> Registry:
    """Discovers the plugins and returns what they declare. No record's target is imported.

    A plugin that is broken, incompatible or disabled does not raise; its :class:`PluginInfo` says why. Each call scans
    anew: call once for each process and pass the registry, or a :class:`~modelhost.plugins.Plan`, on. A plugin whose
    files did not change since an earlier start is not imported: what it declared is kept on disk.

    Args:
        no_plugins: use modelhost's own declarations only.
        settings: what to use instead of ``modelhost.toml`` and the environment; has no cache unless it names one.
        path: directories to search for distributions; ``sys.path`` when ``None``.
        refresh: import every plugin, whatever is known from earlier starts.

    Raises:
        ConfigError: ``modelhost.toml`` or the environment has a key or value that is not allowed.
    """
    settings = load_settings() if settings is None else settings
    return _Boot(settings, path, no_plugins=no_plugins, refresh=refresh).registry()


class _Boot:
    def __init__(self, settings: HostSettings, path: Sequence[str] | None, *, no_plugins: bool, refresh: bool) -> None:
        self.settings = settings
        self.no_plugins = no_plugins
        self.cache = _cache(settings, path, refresh)
        self.found = _found(self.cache, path)
        self.plugins: list[PluginInfo] = []
        self.registrations: list[Registration[Record]] = []

    def registry(self) -> Registry:
        for found in self.found:
            info, registrations = self._admit(found)
            self.plugins.append(info)
            self.registrations.extend(registrations)
        if self.cache:
            self.cache.store(self.found)
        warnings = [
            *_warnings(self.found, self.settings, self.plugins),
            *_unclaimed_settings(self.settings, self.registrations),
        ]
        use = self.cache.use if self.cache else None
        return Registry(self.plugins, self.registrations, self.settings, warnings, use)

    def _admit(self, found: Found) -> Declared:
        from_option = self.no_plugins and found.distribution != CORE
        reason = "plugins are switched off by --no-plugins" if from_option else self.settings.reason_disabled(found)
        if reason:
            if self.cache:
                self.cache.keep(found)
            return PluginInfo.disabled(found, reason), ()
        return (self.cache and self.cache.declared(found)) or self._declare(found)

    def _declare(self, found: Found) -> Declared:
        from .declaration import declare, repeated

        first = next((one for one in self.plugins if one.module == found.module and one.state == "ok"), None)
        if first and not found.problem:
            return repeated(found, first), ()
        if not self.cache:
            return declare(self._manager, found, self.settings.timeout)
        return self.cache.hear(found, lambda: declare(self._manager, found, self.settings.timeout))

    @cached_property
    def _manager(self) -> pluggy.PluginManager:
        import pluggy

        from modelhost.api import hookspecs

        manager = pluggy.PluginManager(hookspecs.PROJECT)
        manager.add_hookspecs(hookspecs)
        return manager


def _cache(settings: HostSettings, path: Sequence[str] | None, refresh: bool) -> DeclarationCache | None:
    if settings.cache is None:
        return None
    from .cache import DeclarationCache

    return DeclarationCache(settings.cache, path, refresh=refresh)


def _found(cache: DeclarationCache | None, path: Sequence[str] | None) -> tuple[Found, ...]:
    known = cache.discovered() if cache else None
    if known is not None:
        return known
    from .discovery import discover

    return discover(path)


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
