"""Finds the entry points of the group ``modelhost``, without importing any.

Every distribution is looked at by itself. Loaders that go by entry-point name drop the second of two distributions that
chose the same name.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from importlib.metadata import Distribution, EntryPoint, distributions

from .info import CORE, Found, normalize

GROUP = "modelhost"


def discover(path: Sequence[str] | None = None) -> tuple[Found, ...]:
    """All entry points of the group, those of modelhost itself first, then by distribution and name.

    A distribution that is seen twice (an editable install over a wheel, ``lib`` and ``lib64``) counts once. If its two
    copies disagree on where an entry point leads, the second is returned with a ``problem``.

    Args:
        path: directories to search; ``sys.path`` when ``None``.
    """
    seen: dict[tuple[str, str], Found] = {}
    conflicts: list[Found] = []
    for distribution in distributions() if path is None else distributions(path=list(path)):
        for found in _entry_points(distribution):
            first = seen.setdefault((found.distribution, found.entry_point), found)
            if first.module != found.module:
                conflicts.append(_conflict(first, found))
    return tuple(sorted([*seen.values(), *conflicts], key=_order))


def _order(found: Found) -> tuple[bool, str, str]:
    return found.distribution != CORE, found.distribution, found.entry_point


def _entry_points(distribution: Distribution) -> Iterator[Found]:
    try:
        text = distribution.read_text("entry_points.txt")
        if not text or GROUP not in text:
            return
        selected = [entry_point for entry_point in distribution.entry_points if entry_point.group == GROUP]
    except Exception as error:
        yield _unreadable(distribution, error)
        return
    for entry_point in selected:
        yield _found(distribution, entry_point)


def _found(distribution: Distribution, entry_point: EntryPoint) -> Found:
    name, version = _name_and_version(distribution)
    return Found(entry_point.name, entry_point.value, name, version, _location(distribution), _editable(distribution))


def _unreadable(distribution: Distribution, error: Exception) -> Found:
    name, version = _name_and_version(distribution)
    location = _location(distribution)
    problem = f"entry_points.txt in {location} cannot be read: {type(error).__name__}: {error}"
    return Found("?", "?", name, version, location, problem=problem)


def _conflict(first: Found, second: Found) -> Found:
    problem = (
        f"the distribution is installed twice and the copies disagree: {first.entry_point!r} is {first.module!r} in "
        f"{first.location} and {second.module!r} in {second.location}"
    )
    return Found(
        second.entry_point,
        second.module,
        second.distribution,
        second.version,
        second.location,
        second.editable,
        problem,
    )


def _name_and_version(distribution: Distribution) -> tuple[str, str]:
    """From the head of the metadata only: what follows is a README that is slow to parse."""
    try:
        text = distribution.read_text("METADATA") or distribution.read_text("PKG-INFO") or ""
    except UnicodeDecodeError:
        text = ""
    fields = dict(re.findall(r"^(Name|Version):[ \t]*(\S+)", text.partition("\n\n")[0], re.MULTILINE))
    return normalize(fields.get("Name", "unknown")), fields.get("Version", "unknown")


def _location(distribution: Distribution) -> str:
    return str(getattr(distribution, "_path", None) or distribution.locate_file(""))


def _editable(distribution: Distribution) -> bool:
    try:
        origin = json.loads(distribution.read_text("direct_url.json") or "{}")
        return bool(origin.get("dir_info", {}).get("editable", False))
    except (ValueError, AttributeError):
        return False
