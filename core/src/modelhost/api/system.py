"""The host and this process: what backends and the engine need to know of them."""

from __future__ import annotations

import ctypes
import os
import sys
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


def resident_memory() -> int | None:
    """Bytes of host memory that this process has now; ``None`` where the system does not tell."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return None


def peak_memory() -> int | None:
    """Bytes of the largest resident set of this process so far; ``None`` where the system does not tell.

    On Linux this is ``VmHWM``, which unlike ``ru_maxrss`` does not include what the parent had before ``exec``.
    """
    try:
        with open("/proc/self/status", encoding="ascii") as file:
            for line in file:
                if line.startswith("VmHWM:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    try:
        import resource
    except ImportError:
        return None
    largest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return largest if sys.platform == "darwin" else largest * 1024


def trim_heap() -> None:
    """Give what is free in the C library's heap back to the system, where the library can (malloc_trim(3) of glibc)."""
    if os.name == "posix":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)


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
