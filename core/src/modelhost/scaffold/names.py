"""The names that a new plugin package gets from the one that its author chose."""

from __future__ import annotations

import re
from dataclasses import dataclass

from modelhost.api import PluginError
from modelhost.plugins.known import known_plugins

KINDS = {
    "model": "{title} models for modelhost",
    "backend": "{title} kernel backend for modelhost",
    "parser": "{title} parsers for modelhost",
    "speculator": "{title} speculation for modelhost",
}
"""Each kind of plugin, and the one-line description of a new one."""
_PREFIX = "modelhost-"
_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")


@dataclass(frozen=True, slots=True)
class PluginName:
    """A checked name, such as ``tiny-llama``.

    Attributes:
        kind: one of :data:`KINDS`.
        name: lower-case letters and digits, with single hyphens between words.
    """

    kind: str
    name: str

    @classmethod
    def parse(cls, kind: str, name: str) -> PluginName:
        """Check a kind and a name as a user wrote them; a leading ``modelhost-`` is left out.

        Raises:
            PluginError: the kind does not exist, or the name cannot be that of a new distribution.
        """
        if kind not in KINDS:
            raise PluginError(f"there is no kind of plugin {kind!r}; the kinds are {', '.join(KINDS)}")
        short = name.removeprefix(_PREFIX)
        if not _NAME.fullmatch(short):
            raise PluginError(
                f"{name!r} cannot be the name of a plugin: it takes lower-case letters and digits, begins with a "
                f"letter, and has single hyphens between words{_suggestion(short)}"
            )
        if f"{_PREFIX}{short}" in known_plugins().distributions:
            raise PluginError(f"{_PREFIX}{short} is the name of a package that exists; choose another")
        return cls(kind, short)

    @property
    def distribution(self) -> str:
        """What ``pip install`` takes."""
        return f"{_PREFIX}{self.name}"

    @property
    def package(self) -> str:
        """What Python imports."""
        return self.distribution.replace("-", "_")

    @property
    def identifier(self) -> str:
        """The name as an identifier."""
        return self.name.replace("-", "_")

    @property
    def class_name(self) -> str:
        """The name in capitalised words."""
        return "".join(word[0].upper() + word[1:] for word in self.name.split("-"))

    @property
    def summary(self) -> str:
        """One line that says what the package is."""
        return KINDS[self.kind].format(title=self.class_name)


def _suggestion(name: str) -> str:
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", name)
    candidate = re.sub(r"[^a-z0-9]+", "-", words.lower()).strip("-").lstrip("0123456789-")
    return f", such as {candidate!r}" if _NAME.fullmatch(candidate) else ""
