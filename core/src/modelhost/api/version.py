"""The plugin API number, apart from the package version."""

from __future__ import annotations

API: tuple[int, int] = (1, 0)
"""``(major, minor)`` of the contract in :mod:`modelhost.api`.

A plugin works when its major equals the host's and its minor is not above the host's.
"""


def compatible(plugin: tuple[int, int], host: tuple[int, int] = API) -> bool:
    """Whether a plugin built for API number ``plugin`` runs on API number ``host``."""
    return plugin[0] == host[0] and plugin[1] <= host[1]
