"""What the host knows about one plugin and about one record that it declared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Generic, Literal, TypeVar

from modelhost.api import Record

CORE = "modelhost"
"""The distribution of the host itself. Its entry point is never disabled."""

State = Literal["ok", "disabled", "incompatible", "broken"]
R_co = TypeVar("R_co", bound=Record, covariant=True)


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
        ids: ids of the declared records by kind.
        location: file of the declaring module; that of the distribution's metadata when the module was not imported.
        notes: one sentence for each duplicate or replacement that touches its records.
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

    @classmethod
    def of(cls, found: Found, state: State, location: str) -> PluginInfo:
        """The info of ``found`` with nothing known yet but its state."""
        return cls(found.entry_point, found.module, found.distribution, found.version, found.editable, state, location)
