"""``modelhost plugins``: what is installed and in which state."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .loaded import boot_plugins
from .options import JsonFlag, NoPluginsFlag
from .terminal import print_json, print_line, print_table, warn

if TYPE_CHECKING:
    from modelhost.plugins import PluginInfo, Registry

_MOST_IDS = 4
_HEADER = ("plugin", "distribution", "version", "API", "kind", "ids", ">import ms", "state", "location")

RefreshFlag = Annotated[bool, typer.Option("--refresh", help="Import every plugin anew, whatever earlier starts found")]


def plugins(json: JsonFlag = False, no_plugins: NoPluginsFlag = False, refresh: RefreshFlag = False) -> int:
    """List the installed plugins, what they provide and, when one cannot be used, why not.

    "modelhost plugins install NAME" and "modelhost plugins uninstall NAME" change them; both have --help.
    Times in brackets are those of an earlier start: the plugin has not changed since and was not imported.
    """
    registry = boot_plugins(no_plugins=no_plugins, refresh=refresh)
    if json:
        print_json(registry_data(registry))
        return 0
    print_table(None, _HEADER, (row for plugin in registry.plugins for row in _rows(plugin)))
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


def _rows(plugin: PluginInfo) -> Iterator[tuple[str, ...]]:
    """A row for the plugin and its first kind of record, and one for each further kind."""
    provided = [(kind, _ids(ids)) for kind, ids in plugin.ids.items()] or [("-", "-")]
    time = f"({plugin.import_ms:.1f})" if plugin.cached else f"{plugin.import_ms:.1f}"
    location = f"{plugin.location}{' (editable)' if plugin.editable else ''}"
    head = (plugin.entry_point, plugin.distribution, plugin.version, api_text(plugin))
    yield (*head, *provided[0], time, plugin.state, location)
    for more in provided[1:]:
        yield ("", "", "", "", *more, "", "", "")


def _ids(ids: tuple[str, ...]) -> str:
    return (
        ", ".join(ids)
        if len(ids) <= _MOST_IDS
        else f"{', '.join(ids[: _MOST_IDS - 1])} and {len(ids) - _MOST_IDS + 1} more"
    )


def _remarks(plugin: PluginInfo) -> Iterator[str]:
    if plugin.error:
        yield plugin.error
    yield from plugin.notes
