"""``modelhost plugins``: what is installed and in which state."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from .loaded import boot_plugins
from .options import JsonFlag, NoPluginsFlag
from .terminal import print_json, print_line, print_table, warn

if TYPE_CHECKING:
    from modelhost.plugins import PluginInfo, Registry

_MOST_IDS = 4
_HEADER = ("plugin", "distribution", "version", "API", "provides", ">import ms", "state", "location")


def plugins(json: JsonFlag = False, no_plugins: NoPluginsFlag = False) -> int:
    """List the installed plugins, what they provide and, when one cannot be used, why not."""
    registry = boot_plugins(no_plugins=no_plugins)
    if json:
        print_json(registry_data(registry))
        return 0
    print_table(None, _HEADER, map(_row, registry.plugins))
    for plugin in registry.plugins:
        for text in _remarks(plugin):
            print_line(f"{plugin.distribution}, {plugin.entry_point}: {text}")
    warn(registry.warnings)
    return 0


def registry_data(registry: Registry) -> dict[str, Any]:
    """The plugins and the warnings as plain data."""
    return {"plugins": [asdict(plugin) for plugin in registry.plugins], "warnings": list(registry.warnings)}


def api_text(plugin: PluginInfo) -> str:
    """The API number that a plugin was built for, where it is known."""
    return ".".join(map(str, plugin.api)) if plugin.api else "-"


def _row(plugin: PluginInfo) -> tuple[str, ...]:
    return (
        plugin.entry_point,
        plugin.distribution,
        plugin.version,
        api_text(plugin),
        "\n".join(_provided(kind, ids) for kind, ids in plugin.ids.items()) or "-",
        f"{plugin.import_ms:.1f}",
        plugin.state,
        plugin.location,
    )


def _provided(kind: str, ids: tuple[str, ...]) -> str:
    names = ", ".join(ids) if len(ids) <= _MOST_IDS else str(len(ids))
    return f"{kind}{'s' if len(ids) > 1 else ''}: {names}"


def _remarks(plugin: PluginInfo) -> Iterator[str]:
    if plugin.error:
        yield plugin.error
    yield from plugin.notes
