"""The error for an id that no usable plugin provides: what to install, upgrade or remove, and the closest known ids."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from modelhost.api import PluginError

from .diagnosis import closest
from .info import CORE, PluginInfo
from .known import known_plugins


def unknown(kind: str, id: str, installed: Mapping[str, str], plugins: Iterable[PluginInfo]) -> PluginError:
    """The error to raise when ``id`` is not registered.

    Args:
        kind: of the record, such as ``"architecture"``; or ``"GGUF architecture"``.
        id: what was asked for.
        installed: id -> distribution of the usable records of that kind.
        plugins: all plugins, to find the known provider among them.
    """
    known = known_plugins()
    provider = known.provider(kind, id)
    lines = [f"no installed plugin provides {kind} {id!r}."]
    if provider:
        lines += _provider_lines(provider, [plugin for plugin in plugins if plugin.distribution == provider])
    else:
        lines += _suspect_lines(plugins)
    providers = {**known.providers.get(kind, {}), **installed}
    similar = [name for name in closest(id, providers, 4) if name != id][:3]
    if similar:
        lines.append(
            "Closest known: " + ", ".join(f"{name} ({_state(name, providers, installed)})" for name in similar)
        )
    return PluginError("\n".join(lines))


def _provider_lines(provider: str, found: list[PluginInfo]) -> list[str]:
    if not found:
        return [f"It is provided by {provider}. Install it with: pip install {provider}"]
    errors = [plugin.error for plugin in found if plugin.error]
    if errors:
        return [f"It is provided by {provider}, which is installed but not usable:", *errors]
    return [
        f"{provider} {found[0].version} is installed and does not provide it; a newer one may. "
        f"Upgrade it with: pip install -U {provider}"
    ]


def _suspect_lines(plugins: Iterable[PluginInfo]) -> list[str]:
    """Plugins that nobody knows the contents of, since they could not be imported."""
    known = known_plugins().distributions
    errors = [plugin.error for plugin in plugins if plugin.error and plugin.distribution not in {*known, CORE}]
    return ["An installed plugin that is not usable may provide it:", *errors] if errors else []


def _state(name: str, providers: Mapping[str, str], installed: Mapping[str, str]) -> str:
    return f"{providers[name]}, installed" if name in installed else f"pip install {providers[name]}"
