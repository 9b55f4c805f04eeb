"""Fills in the templates and writes the files."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from modelhost.api import API, PluginError

from .names import PluginName

_SUFFIX = ".tmpl"
_PLACEHOLDER = re.compile(r"@([a-z]+)@")


def write_plugin(name: PluginName, parent: Path) -> list[Path]:
    """Write a package whose tests pass into the directory ``name.distribution`` below ``parent``.

    Returns:
        the files, in order.

    Raises:
        PluginError: the directory exists and is not empty, or cannot be written.
    """
    directory = parent / name.distribution
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise PluginError(f"{directory} exists already; nothing was written. Choose another name or --directory")
    values = _values(name)
    templates = files(__package__) / "templates"
    written = {
        directory / path: _filled(text, values, path)
        for folder in ("common", name.kind)
        for path, text in _templates(templates / folder, values)
    }
    try:
        for path, text in written.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise PluginError(f"{directory} cannot be written: {error.strerror}") from error
    return sorted(written)


def _values(name: PluginName) -> dict[str, str]:
    return {
        "name": name.name,
        "distribution": name.distribution,
        "package": name.package,
        "id": name.identifier,
        "class": name.class_name,
        "summary": name.summary,
        "requirement": f"modelhost{_version_range()}",
        "api": repr(API),
    }


def _version_range() -> str:
    """Versions that keep the installed one's promises: until the next minor version, while the major one is 0."""
    from importlib.metadata import version

    major, minor = map(int, version("modelhost").split(".")[:2])
    return f">={major}.{minor},<{major}.{minor + 1}" if major == 0 else f">={major}.{minor},<{major + 1}"


def _templates(folder: Traversable, values: dict[str, str], prefix: str = "") -> Iterator[tuple[str, str]]:
    """``(path, text)`` of every template; ``dot_`` begins the names of hidden files."""
    for item in folder.iterdir():
        name = _filled(item.name.removesuffix(_SUFFIX), values, item.name)
        path = prefix + re.sub(r"^dot_", ".", name)
        if item.is_dir():
            yield from _templates(item, values, f"{path}/")
        elif item.name.endswith(_SUFFIX):
            yield path, item.read_text(encoding="utf-8")


def _filled(text: str, values: dict[str, str], where: str) -> str:
    def value(match: re.Match[str]) -> str:
        if match[1] not in values:
            raise PluginError(f"template {where}: there is no value for {match[0]}")
        return values[match[1]]

    return _PLACEHOLDER.sub(value, text)
