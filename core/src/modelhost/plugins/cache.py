"""What plugins declared, kept on disk. A plugin whose files are unchanged is not imported to learn what it provides.

One file for each environment and search path. What is in it is used only when it was written for this API number and
these sources of modelhost, when the same distributions are installed, and, for each plugin, when its metadata and every
module that was imported to hear its declarations have the same time and size. All else is read anew.
"""

from __future__ import annotations

import os
import sys
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from modelhost import api
from modelhost.api import API, ModelHostError, Record

from .cache_file import read_cache_file, write_cache_file
from .files import STARTED_S, Files, FileState, settled, state_of
from .info import CORE, Found, PluginInfo, Registration
from .plain import from_plain, to_plain
from .scan import Scan, scan

Declared = tuple[PluginInfo, tuple[Registration[Record], ...]]
FORMAT = 1
_METADATA = ("METADATA", "RECORD", "direct_url.json", "entry_points.txt")
_FOUND_FIELDS = tuple(field.name for field in fields(Found))
_RETRY = "It is not tried again before its files change; to try now: modelhost plugins --refresh"


@dataclass(frozen=True, slots=True)
class CacheUse:
    """How the cache served one boot.

    Attributes:
        file: the file.
        used: number of plugins that were not imported thanks to it.
        problem: why it was not read or not written; ``None`` when all went well.
    """

    file: str
    used: int = 0
    problem: str | None = None


class DeclarationCache:
    """The cache of one boot: ask :meth:`discovered` and :meth:`declared`, then :meth:`store` what was found.

    Args:
        directory: where the file is, or is to be.
        path: the search path of the boot; ``sys.path`` when ``None``.
        refresh: use nothing of what the file holds.
    """

    def __init__(self, directory: Path, path: Sequence[str] | None, *, refresh: bool = False) -> None:
        self._opened = time.time()
        self._scan = scan(path)
        self._files = Files(self._scan.entry_points)
        self._key = {"format": FORMAT, "api": list(API), "sources": [list(state) for state in _host_sources()]}
        self.use = CacheUse(str(directory / _file_name(self._scan)))
        self._old = {} if refresh else self._read()
        self._entries: dict[str, Any] = {}

    def _read(self) -> dict[str, Any]:
        try:
            data = read_cache_file(Path(self.use.file))
        except (OSError, ValueError) as error:
            self.use = replace(self.use, problem=f"not used: {error}")
            return {}
        ours = isinstance(data, dict) and data.get("key") == self._key and isinstance(data.get("declared"), dict)
        return data if ours else {}

    def discovered(self) -> tuple[Found, ...] | None:
        """The entry points, when the installed distributions are those that the file was written for."""
        if not self._scan.complete or self._old.get("scan") != self._scanned():
            return None
        try:
            found = tuple(Found(*values) for values in self._old["found"])
            metadata = [FileState(*state) for state in self._old["metadata"]]
        except (KeyError, TypeError):
            return None
        return found if self._files.unchanged(metadata) else None

    def declared(self, found: Found) -> Declared | None:
        """What ``found`` declared before, when none of its files changed since."""
        entry = self._old.get("declared", {}).get(_name(found))
        try:
            current = entry is not None and Found(*entry["found"]) == found and self._current(found, entry)
            declared = _restored(found, entry) if current else None
        except (AttributeError, KeyError, TypeError, ValueError, ModelHostError):
            return None
        if declared is not None:
            self._entries[_name(found)] = entry
            self.use = replace(self.use, used=self.use.used + 1)
        return declared

    def hear(self, found: Found, declare: Callable[[], Declared]) -> Declared:
        """What ``found`` declares now, remembered when it is usable or took longer than the time limit."""
        before = set(sys.modules)
        info, registrations = declare()
        if info.state == "ok" or info.timed_out:
            states = [state_of(file) for file in sorted({*_metadata_files(found), *_modules(found, before)})]
            if settled(states, STARTED_S):
                self._entries[_name(found)] = _entry(found, info, registrations, states)
        return info, registrations

    def keep(self, found: Found) -> None:
        """Remember what is known of a plugin that is not in use now."""
        entry = self._old.get("declared", {}).get(_name(found))
        if entry is not None:
            self._entries[_name(found)] = entry

    def store(self, found: Iterable[Found]) -> None:
        """Write the file, unless it holds the same already. Failing to is noted in :attr:`use` and harms nothing."""
        data: dict[str, Any] = {"key": self._key, "declared": self._entries}
        found = tuple(found)
        metadata = [self._files.state(file) for one in found for file in _metadata_files(one)]
        if settled([*self._scan.entry_points, *metadata], self._opened):
            data |= {"scan": self._scanned(), "found": [_values(one) for one in found]}
            data["metadata"] = [list(state) for state in metadata]
        if data == self._old:
            return
        try:
            write_cache_file(Path(self.use.file), data)
        except OSError as error:
            self.use = replace(self.use, problem=f"cannot be written: {error}")

    def _current(self, found: Found, entry: dict[str, Any]) -> bool:
        unchanged = self._files.unchanged(FileState(*state) for state in entry["files"])
        return unchanged and _origin(found.module.partition(".")[0]) == entry["origin"]

    def _scanned(self) -> list[list[Any]]:
        return [list(state) for state in self._scan.entry_points]


def _file_name(found: Scan) -> str:
    text = "\n".join([sys.prefix, sys.implementation.cache_tag or "", *found.directories])
    return f"declarations-{zlib.crc32(text.encode()):08x}.json"


def _name(found: Found) -> str:
    return f"{found.distribution}:{found.entry_point}:{found.module}"


def _values(found: Found) -> list[Any]:
    return [getattr(found, name) for name in _FOUND_FIELDS]


def _host_sources() -> Iterator[FileState]:
    """The modules of modelhost that decide what a declaration means."""
    for folder in (os.path.dirname(api.__file__), os.path.dirname(__file__)):
        for name in ("records.py", "hookspecs.py", "declaration.py", "plain.py", "info.py"):
            yield state_of(os.path.join(folder, name))


def _metadata_files(found: Found) -> Iterator[str]:
    for name in _METADATA:
        yield f"{found.location}{os.sep}{name}"
    if found.location.endswith(".egg-info"):
        yield f"{found.location}{os.sep}PKG-INFO"


def _modules(found: Found, before: set[str]) -> Iterator[str]:
    """Files of the loaded modules of the plugin's package, and of all others that came with its declaration."""
    package = found.module.partition(".")[0]
    for name, module in list(sys.modules.items()):
        top = name.partition(".")[0]
        foreign = top in sys.stdlib_module_names or (top == CORE and package != CORE)
        if (top == package or name not in before) and not foreign and isinstance(module.__dict__.get("__file__"), str):
            yield module.__dict__["__file__"]
    origin = _origin(package)
    yield from [origin] if isinstance(origin, str) else []


def _origin(package: str) -> str | list[str] | None:
    """Where a top-level package would be imported from."""
    from importlib.util import find_spec

    if package in sys.modules:
        spec = getattr(sys.modules[package], "__spec__", None)
    else:
        try:
            spec = find_spec(package)
        except (ImportError, ValueError, AttributeError):
            return None
    if spec is None:
        return None
    return spec.origin if spec.has_location else [str(place) for place in spec.submodule_search_locations or ()]


def _entry(
    found: Found, info: PluginInfo, registrations: tuple[Registration[Record], ...], states: list[FileState]
) -> dict[str, Any]:
    return {
        "found": _values(found),
        "files": [list(state) for state in states],
        "origin": _origin(found.module.partition(".")[0]),
        "api": list(info.api) if info.api else None,
        "location": info.location,
        "import_ms": info.import_ms,
        "error": info.error,
        "records": [[one.kind, to_plain(one.record)] for one in registrations],
    }


def _restored(found: Found, entry: dict[str, Any]) -> Declared:
    records = [from_plain(kind, values) for kind, values in entry["records"]]
    api = tuple(entry["api"]) if entry["api"] else None
    error = f"{entry['error']}. {_RETRY}" if entry["error"] else None
    info = PluginInfo(
        *(found.entry_point, found.module, found.distribution, found.version, found.editable),
        "broken" if error else "ok",
        str(entry["location"]),
        api,
        error,
        float(entry["import_ms"]),
        PluginInfo.ids_of(records),
        cached=True,
        timed_out=error is not None,
    )
    if info.state == "ok" and (api is None or not _runs_here(api)):
        raise ValueError("not built for this API")
    return info, info.registrations(records)


def _runs_here(api: tuple[int, ...]) -> bool:
    """Whether a stored API number is one that this host runs."""
    from modelhost.api import compatible

    return len(api) == 2 and all(type(number) is int for number in api) and compatible((api[0], api[1]))
