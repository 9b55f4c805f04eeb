"""What the host knows about one plugin and about one record that it declared."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Generic, Literal, TypeVar

from modelhost.api import API, Record

CORE = "modelhost"
"""The distribution of the host itself. Its entry point is never disabled."""

State = Literal["ok", "disabled", "incompatible", "broken"]
R_co = TypeVar("R_co", bound=Record, covariant=True)


def normalize(name: str) -> str:
    """A distribution's name in the form that compares equal for all its spellings (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


@dataclass(frozen=True, slots=True)
class Found:
    """One entry point of the group ``modelhost``, not yet imported.

    Attributes:
        entry_point: its name.
        module: its value, the dotted name of the declaring module.
        distribution: normalised name (lower case, ``-`` between words) of the distribution that installs it.
        version: of the distribution.
        location: directory or file of the distribution's metadata.
        editable: whether the distribution is an editable install.
        problem: why it cannot be used, when that is known before import.
    """

    entry_point: str
    module: str
    distribution: str
    version: str
    location: str
    editable: bool = False
    problem: str | None = None

    @property
    def names(self) -> frozenset[str]:
        """What ``enable`` and ``disable`` may call it."""
        return frozenset({self.entry_point, self.distribution, f"{self.distribution}:{self.entry_point}"})

    def __str__(self) -> str:
        return f"{self.distribution} {self.version} (entry point {self.entry_point!r})"


@dataclass(frozen=True, slots=True)
class Registration(Generic[R_co]):
    """A record and where it came from.

    Attributes:
        record: as declared.
        distribution: normalised name of the distribution that declared it.
        version: of the distribution.
        entry_point: name of the entry point.
        module: the declaring module.
        file: its source file.
        api: the API number that the plugin was built for.
    """

    record: R_co
    distribution: str
    version: str
    entry_point: str
    module: str
    file: str
    api: tuple[int, int]

    @property
    def id(self) -> str:
        return self.record.id

    @property
    def kind(self) -> str:
        return self.record.kind

    @property
    def owner(self) -> str:
        """``"distribution version"``, as messages name it."""
        return f"{self.distribution} {self.version}"


@dataclass(frozen=True, slots=True)
class PluginInfo:
    """The state of one entry point after :func:`modelhost.plugins.boot`. Plain data: ``dataclasses.asdict`` gives JSON.

    Attributes:
        state: ``"ok"``, ``"disabled"``, ``"incompatible"`` or ``"broken"``; only ``"ok"`` ones are in the registry.
        error: why the state is not ``"ok"`` and what to do; ``None`` when it is.
        import_ms: milliseconds that the import of the declaring module and its hooks took; 0 when it was not imported.
            Of a plugin that is ``cached``, what they took when it was imported.
        ids: ids of the declared records by kind.
        location: file of the declaring module; that of the distribution's metadata when the module was not imported.
        notes: one sentence for each duplicate or replacement that touches its records.
        cached: it was not imported: what it declared is known from an earlier start.
        timed_out: it is broken since it took longer than the time limit.
    """

    entry_point: str
    module: str
    distribution: str
    version: str
    editable: bool
    state: State
    location: str
    api: tuple[int, int] | None = None
    error: str | None = None
    import_ms: float = 0.0
    ids: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    cached: bool = False
    timed_out: bool = False

    @classmethod
    def of(cls, found: Found, state: State, location: str) -> PluginInfo:
        """The info of ``found`` with nothing known yet but its state."""
        return cls(found.entry_point, found.module, found.distribution, found.version, found.editable, state, location)

    @classmethod
    def disabled(cls, found: Found, reason: str) -> PluginInfo:
        """The info of a plugin that was not imported because ``reason``."""
        info = cls.of(found, "disabled", found.location)
        return replace(info, error=f"{found.distribution} {found.version} is disabled: {reason}")

    @staticmethod
    def ids_of(records: Iterable[Record]) -> dict[str, tuple[str, ...]]:
        """The ids of ``records`` by kind."""
        ids: dict[str, tuple[str, ...]] = {}
        for record in records:
            ids[record.kind] = (*ids.get(record.kind, ()), record.id)
        return ids

    def registrations(self, records: Iterable[Record]) -> tuple[Registration[Record], ...]:
        """``records`` as those of this plugin."""
        return tuple(
            Registration(
                record,
                self.distribution,
                self.version,
                self.entry_point,
                self.module,
                self.location,
                self.api or API,
            )
            for record in records
        )
