"""What an installation would change, and the changes that are not allowed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from ..info import CORE, normalize
from .versions import version_key

PROTECTED = (CORE, "torch")
"""Distributions that are not replaced by older ones to suit a plugin."""


@dataclass(frozen=True, slots=True)
class Change:
    """A distribution that would be installed.

    Attributes:
        name: normalised.
        version: to be installed.
        installed: version that it would replace; ``None`` when there is none.
        requires: its requirements, as in its metadata.
    """

    name: str
    version: str
    installed: str | None
    requires: tuple[str, ...] = ()

    @property
    def verb(self) -> str:
        """``"install"``, ``"upgrade"``, ``"downgrade"`` or ``"reinstall"``."""
        if self.installed is None:
            return "install"
        new, old = version_key(self.version), version_key(self.installed)
        return "reinstall" if new == old else "upgrade" if new > old else "downgrade"

    def __str__(self) -> str:
        if self.installed is None or self.verb == "reinstall":
            return f"{self.verb} {self.name} {self.version}"
        return f"{self.verb} {self.name} {self.installed} to {self.version}"


def changes_of(report: Iterable[dict[str, Any]]) -> tuple[Change, ...]:
    """The changes in the part ``install`` of a pip installation report, by name."""
    changes = (_change(item["metadata"]) for item in report)
    return tuple(sorted(changes, key=lambda change: change.name))


def _change(metadata: dict[str, Any]) -> Change:
    from importlib.metadata import PackageNotFoundError, version

    name = normalize(metadata["name"])
    try:
        installed = version(name)
    except PackageNotFoundError:
        installed = None
    return Change(name, metadata["version"], installed, tuple(metadata.get("requires_dist", ())))


def refusal(changes: tuple[Change, ...]) -> str | None:
    """Why the changes are not made, in a sentence, or ``None`` when there is nothing against them."""
    for change in changes:
        if change.name in PROTECTED and change.verb == "downgrade":
            why = " and ".join(_requirers(change.name, changes)) or "it was asked for"
            return (
                f"it would {change}: {why}. Nothing was changed. Install a release that goes with {change.name} "
                f"{change.installed}, or downgrade it yourself first: pip install {change.name}=={change.version}"
            )
    return None


def _requirers(name: str, changes: Iterable[Change]) -> Iterator[str]:
    for change in changes:
        for text in change.requires:
            match = re.match(r"[\w.-]+", text)
            if match and normalize(match[0]) == name and "extra ==" not in text:
                yield f"{change.name} {change.version} requires {text}"
