"""Facts about the host that backends and the engine need."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

_CGROUP = Path("/sys/fs/cgroup")


def cache_directory(environment: Mapping[str, str] | None = None) -> Path:
    """Where modelhost and its plugins keep what they can make again; it need not exist yet.

    ``$MODELHOST_CACHE``; else ``%LOCALAPPDATA%\\modelhost\\cache`` on Windows, and ``modelhost`` in
    ``$XDG_CACHE_HOME`` or ``~/.cache`` elsewhere. A plugin uses a directory of its own name in it.
    """
    environment = os.environ if environment is None else environment
    if own := environment.get("MODELHOST_CACHE"):
        return Path(own)
    if os.name == "nt":
        return Path(environment.get("LOCALAPPDATA") or Path.home()) / "modelhost" / "cache"
    return Path(environment.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "modelhost"


def available_memory() -> int:
    """Bytes of host memory that this process can still take: free memory or what its cgroup leaves, the lesser."""
    return min(_free_memory(), _cgroup_headroom())


def _free_memory() -> int:
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            for line in file:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        return _physical_memory()
    return _physical_memory()


def _physical_memory() -> int:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _cgroup_headroom() -> int:
    """What the limit of a version 2 cgroup leaves; unlimited where there is none."""
    unlimited = 1 << 62
    try:
        limit = (_CGROUP / "memory.max").read_text().strip()
        used = int((_CGROUP / "memory.current").read_text())
    except (OSError, ValueError):
        return unlimited
    return unlimited if limit == "max" else max(0, int(limit) - used)
