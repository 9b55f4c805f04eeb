"""What was decided at start-up, as plain data for the processes that carry it out."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

from modelhost.api import API, PluginError

from .backend_selection import BackendSelection
from .candidate import Selection
from .info import Registration
from .loading import import_target
from .registry import Registry


@dataclass(frozen=True, slots=True)
class PlannedTarget:
    """A selected record: what to import, and the distribution and version that it was selected from."""

    kind: str
    id: str
    target: str
    distribution: str
    version: str

    @classmethod
    def of(cls, registration: Registration[Any]) -> PlannedTarget:
        """The plan's entry for ``registration``."""
        record = registration.record
        return cls(record.kind, record.id, record.target, registration.distribution, registration.version)

    def load(self) -> Any:
        """Imports the target.

        Raises:
            PluginError: it cannot be imported; the text has the cause, the distribution, file and line.
        """
        owner = f"{self.distribution} {self.version}, {self.kind} {self.id!r}"
        return import_target(self.target, owner, self.distribution, self.target)


@dataclass(frozen=True, slots=True)
class Plan:
    """The choices for one model. Workers get it, verify it, and import exactly what it names.

    Attributes:
        model: path of the checkpoint.
        architecture: reads the checkpoint.
        backend: runs the graph.
        device: for the backend.
        dtype: of activations.
        api: API number of the host that made the plan.
        plugins: ``(distribution, version)`` of every usable plugin, sorted.
    """

    model: str
    architecture: PlannedTarget
    backend: PlannedTarget
    device: str
    dtype: str
    api: tuple[int, int]
    plugins: tuple[tuple[str, str], ...]

    @classmethod
    def make(cls, model: str, architecture: Selection[Any], backend: BackendSelection, registry: Registry) -> Plan:
        """The plan for the two selections."""
        usable = {(plugin.distribution, plugin.version) for plugin in registry.plugins if plugin.state == "ok"}
        return cls(
            model,
            PlannedTarget.of(architecture.chosen),
            PlannedTarget.of(backend.chosen),
            backend.device,
            backend.dtype,
            API,
            tuple(sorted(usable)),
        )

    def to_json(self) -> str:
        """JSON text, the same for equal plans."""
        return json.dumps(asdict(self), sort_keys=True, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Plan:
        """The inverse of :meth:`to_json`.

        Raises:
            PluginError: the text is not a plan.
        """
        try:
            data = json.loads(text)
            data["architecture"] = PlannedTarget(**data["architecture"])
            data["backend"] = PlannedTarget(**data["backend"])
            major, minor = data["api"]
            data["api"] = (major, minor)
            data["plugins"] = tuple((distribution, version) for distribution, version in data["plugins"])
            return cls(**data)
        except (ValueError, TypeError, KeyError) as error:
            raise PluginError(f"not a plan: {type(error).__name__}: {error}") from error

    def digest(self) -> str:
        """SHA-256 of :meth:`to_json`, in hexadecimal. Equal digests mean equal plans."""
        from hashlib import sha256

        return sha256(self.to_json().encode()).hexdigest()

    def verify(self) -> None:
        """Checks that this process would import what the plan was made from.

        Raises:
            PluginError: the API number differs, or a plugin is missing or has another version; the text names each.
        """
        differences = [*self._api_difference(), *self._version_differences()]
        if differences:
            raise PluginError("\n".join(["this process does not match the plan:", *differences]))

    def _api_difference(self) -> list[str]:
        if self.api == API:
            return []
        return [f"  modelhost API: {self.api[0]}.{self.api[1]} in the plan, {API[0]}.{API[1]} here"]

    def _version_differences(self) -> list[str]:
        from importlib.metadata import PackageNotFoundError, version

        differences = []
        for distribution, planned in self.plugins:
            try:
                here = version(distribution)
            except PackageNotFoundError:
                here = "not installed"
            if here != planned:
                differences.append(f"  {distribution}: {planned} in the plan, {here} here")
        return differences
