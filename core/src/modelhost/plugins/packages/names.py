"""From what a user calls a plugin to a distribution."""

from __future__ import annotations

import os
import re
from difflib import get_close_matches

from modelhost.api import PluginError

from ..discovery import discover
from ..info import CORE, Found, normalize
from ..known import known_plugins

PREFIX = "modelhost-"
_NAME = re.compile(r"([A-Za-z0-9][\w.-]*)(\s*\[[^]]*\])?\s*((?:[<>=!~]=?|===|;|@).*)?", re.DOTALL)
_SIMILAR = 0.75


def requirement(text: str) -> str:
    """What pip is to install for ``text``.

    A directory, an archive or a URL stays as it is. A short name (``llama``), an architecture, a parser or another id
    of the index of known plugins becomes the distribution that provides it; extras and versions after it are kept.

    Raises:
        PluginError: the name is unknown and much like a known one.
    """
    match = _NAME.fullmatch(text.strip())
    if not match or os.path.exists(text) or text.endswith((".whl", ".gz", ".zip")):
        return text
    name, rest = match[1], f"{match[2] or ''}{match[3] or ''}"
    known = known_plugins()
    for candidate in (normalize(name), PREFIX + normalize(name)):
        if candidate in known.distributions or candidate == CORE:
            return candidate + rest
    providers = {table[name] for table in known.providers.values() if name in table}
    if len(providers) > 1:
        raise PluginError(f"{name!r} is provided by {' and '.join(sorted(providers))}. Name the one to install")
    if providers:
        return providers.pop() + rest
    _refuse_misspelling(name, bool(rest))
    return normalize(name) + rest


def _refuse_misspelling(name: str, exact: bool) -> None:
    """A name that is almost a known one is not handed to an index where anyone may have claimed it."""
    short = {known.removeprefix(PREFIX): known for known in known_plugins().distributions}
    names = {**{known: known for known in short.values()}, **short}
    close = get_close_matches(normalize(name), names, 1, _SIMILAR)
    if close and not exact:
        raise PluginError(
            f"there is no known plugin {name!r}. Did you mean {close[0]} ({names[close[0]]})? "
            f"To install a distribution of exactly this name, give its version too: {name}==VERSION"
        )


def installed_plugin(name: str) -> Found:
    """The installed plugin that goes by ``name``: of its distribution, without ``modelhost-``, or of an entry point.

    Raises:
        PluginError: there is none, or several, or it is modelhost itself.
    """
    found = discover()
    if normalize(name) in {CORE, "core"}:
        raise PluginError("modelhost itself is not a plugin. Remove it with: pip uninstall modelhost")
    by_distribution = {one.distribution: one for one in reversed(found) if one.distribution != CORE}
    for candidate in (normalize(name), PREFIX + normalize(name)):
        if candidate in by_distribution:
            return by_distribution[candidate]
    matches = {one.distribution: one for one in found if one.entry_point == name and one.distribution != CORE}
    if len(matches) == 1:
        return next(iter(matches.values()))
    if matches:
        raise PluginError(f"{name!r} is an entry point of {' and '.join(matches)}. Name the distribution to remove")
    raise PluginError(_not_installed(name, list(by_distribution)))


def _not_installed(name: str, distributions: list[str]) -> str:
    short = {one.removeprefix(PREFIX): one for one in distributions}
    close = get_close_matches(normalize(name).removeprefix(PREFIX), short, 1, 0.6)
    hint = f" Did you mean {short[close[0]]}?" if close else ""
    return f"no plugin {name!r} is installed.{hint} See: modelhost plugins"
