"""The index of plugins that are known to exist, installed or not (``known_plugins.toml``)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

GGUF = "GGUF architecture"
"""The kind under which values of ``general.architecture`` are indexed."""

_KINDS = {
    "architectures": "architecture",
    "gguf": GGUF,
    "backends": "backend",
    "tool_parsers": "tool parser",
    "reasoning_parsers": "reasoning parser",
    "speculators": "speculator",
    "grammars": "grammar",
}


@dataclass(frozen=True, slots=True)
class KnownPlugins:
    """Who provides what.

    Attributes:
        providers: kind -> id -> distribution.
        devices: distribution of a backend -> devices that it runs on.
        recommended_backend: the distribution to install when no backend is usable.
    """

    providers: Mapping[str, Mapping[str, str]]
    devices: Mapping[str, tuple[str, ...]]
    recommended_backend: str

    def provider(self, kind: str, id: str) -> str | None:
        """The distribution that provides ``id``."""
        return self.providers.get(kind, {}).get(id)

    @property
    def distributions(self) -> frozenset[str]:
        """All distributions of the index."""
        return frozenset(owner for owners in self.providers.values() for owner in owners.values())


@cache
def known_plugins() -> KnownPlugins:
    """The index that this release ships with."""
    import tomllib
    from importlib.resources import files

    data = tomllib.loads(files(__package__).joinpath("known_plugins.toml").read_text(encoding="utf-8"))
    recommended = data.pop("recommended")
    providers: dict[str, dict[str, str]] = {kind: {} for kind in _KINDS.values()}
    for distribution, table in data.items():
        for key, kind in _KINDS.items():
            providers[kind].update(dict.fromkeys(table.get(key, ()), distribution))
    devices = {distribution: tuple(table["devices"]) for distribution, table in data.items() if "devices" in table}
    return KnownPlugins(providers, devices, recommended["backend"])
