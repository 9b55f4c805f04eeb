"""Chooses the kernel backend, never falling back in silence: a broken one that may be meant is an error."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from modelhost.api import Backend, PluginError, UnsupportedError

from . import diagnosis
from .candidate import Candidate, Selection, Verdict, candidate, explained, unusable
from .info import PluginInfo, Registration
from .known import known_plugins
from .loading import load_target
from .registry import Registry


@dataclass(frozen=True, slots=True)
class BackendSelection(Selection[Backend]):
    """The chosen backend with the device and dtype that it is to use."""

    device: str = "cpu"
    dtype: str = "float32"


def select_backend(
    registry: Registry, name: str | None = None, device: str | None = None, dtype: str | None = None
) -> BackendSelection:
    """The backend called ``name``; without a name, the one of highest priority that can run here.

    A backend that is marked as a fallback is chosen by name, or with a warning when no other can run.

    Args:
        device: such as ``"cpu"`` or ``"cuda:1"``; the backend's first when ``None``.
        dtype: of activations; the backend's first when ``None``.

    Raises:
        PluginError: the named backend is not installed; a probe raised; an installed backend is broken or incompatible;
            or two are equally good. The text has a line for every candidate and the way out.
        UnsupportedError: no backend, or not the named one, can run on this device with this dtype.
    """
    if name is None:
        return _Automatic(registry, device, dtype).select()
    chosen = registry.find(Backend, name)
    reason = _mismatch(chosen.record, device, dtype) or _probe(chosen)
    others = [other for other in registry.all(Backend) if other is not chosen]
    lines = [candidate(other, "rejected", f"backend {name!r} was asked for") for other in others]
    if reason:
        text = f"backend {name!r} ({chosen.owner}) was asked for and cannot be used: {reason}"
        raise UnsupportedError(explained(text, lines))
    lines.insert(0, candidate(chosen, "chosen", "asked for by name"))
    return _selection(chosen, lines, device, dtype)


class _Automatic:
    """One selection without a name: goes through the backends from the highest rank down."""

    def __init__(self, registry: Registry, device: str | None, dtype: str | None) -> None:
        self.registry = registry
        self.device = device
        self.dtype = dtype
        self.lines: list[Candidate] = []
        self.best: list[Registration[Backend]] = []

    def select(self) -> BackendSelection:
        self._refuse_broken_plugins()
        for registration in sorted(self.registry.all(Backend), key=_rank, reverse=True):
            self._consider(registration)
        if not self.best:
            raise UnsupportedError(explained(self._nothing_usable(), self.lines))
        if len(self.best) > 1:
            raise PluginError(explained(self._ambiguous(), self._final_lines("usable")))
        warning = self._fallback_warning() if self.best[0].record.fallback else None
        return _selection(self.best[0], self._final_lines("chosen"), self.device, self.dtype, warning)

    def _refuse_broken_plugins(self) -> None:
        """A known provider of a backend for the device that cannot say whether it would run is not passed over."""
        for plugin in self.registry.plugins:
            ids = _known_backends(plugin.distribution)
            if not ids or not self._known_to_run_here(plugin):
                continue
            self.lines += unusable(ids, plugin)
            if plugin.state in {"broken", "incompatible"}:
                text = f"{plugin.error}\nTo go on without it, name the backend to use with --backend."
                raise PluginError(explained(text, self.lines))

    def _known_to_run_here(self, plugin: PluginInfo) -> bool:
        return self.device is None or _kind_of(self.device) in known_plugins().devices.get(plugin.distribution, ())

    def _consider(self, registration: Registration[Backend]) -> None:
        if mismatch := _mismatch(registration.record, self.device, self.dtype):
            self.lines.append(candidate(registration, "rejected", mismatch))
        elif self.best and _rank(registration) < _rank(self.best[0]):
            self.lines.append(candidate(registration, "lower", _why_lower(registration, self.best[0])))
        elif reason := self._probe(self.registry.find(Backend, registration.id)):
            self.lines.append(candidate(registration, "rejected", reason))
        else:
            self.best.append(registration)

    def _probe(self, registration: Registration[Backend]) -> str | None:
        try:
            return _probe(registration)
        except PluginError as error:
            text = f"{error}\nTo go on without it, name the backend to use with --backend."
            raise PluginError(explained(text, self.lines)) from error

    def _final_lines(self, verdict: Verdict) -> list[Candidate]:
        return [candidate(one, verdict, _why_best(one)) for one in self.best] + self.lines

    def _ambiguous(self) -> str:
        names = " and ".join(f"{one.id!r} ({one.owner})" for one in self.best)
        flags = " or ".join(f"--backend {one.id}" for one in self.best)
        return f"backends {names} can both run with priority {self.best[0].record.priority}. Choose with {flags}"

    def _nothing_usable(self) -> str:
        wanted = [f"on device {self.device!r}"] if self.device else []
        wanted += [f"with dtype {self.dtype!r}"] if self.dtype else []
        text = f"no installed backend can run {' '.join(wanted) or 'here'}."
        missing = list(_installable(self.registry, self.device))
        return f"{text} Install one: {', or '.join(f'pip install {name}' for name in missing)}" if missing else text

    def _fallback_warning(self) -> str:
        chosen, recommended = self.best[0], known_plugins().recommended_backend
        text = f"no other backend is usable, so the slow {chosen.id!r} one is used."
        installed = {plugin.distribution for plugin in self.registry.plugins}
        broken = [plugin.distribution for plugin in self.registry.plugins if plugin.state in {"broken", "incompatible"}]
        if broken:
            text = f"{text} These plugins cannot be used and may have one: {', '.join(broken)}; see modelhost plugins."
        return text if recommended in installed else f"{text} Install a faster one: pip install {recommended}"


def _selection(
    chosen: Registration[Backend],
    lines: list[Candidate],
    device: str | None,
    dtype: str | None,
    warning: str | None = None,
) -> BackendSelection:
    record = chosen.record
    return BackendSelection(chosen, tuple(lines), warning, device or record.devices[0], dtype or record.dtypes[0])


def _rank(registration: Registration[Backend]) -> tuple[bool, int]:
    return not registration.record.fallback, registration.record.priority


def _why_best(winner: Registration[Backend]) -> str:
    return "a fallback, and no other is usable" if winner.record.fallback else f"priority {winner.record.priority}"


def _why_lower(loser: Registration[Backend], winner: Registration[Backend]) -> str:
    if loser.record.fallback and not winner.record.fallback:
        return "a fallback, used when no other backend is usable"
    return f"priority {loser.record.priority} is below {winner.record.priority} of {winner.id}"


def _mismatch(record: Backend, device: str | None, dtype: str | None) -> str | None:
    if device is not None and _kind_of(device) not in record.devices:
        return f"runs on {', '.join(record.devices)}, not on {device!r}"
    if dtype is not None and dtype not in record.dtypes:
        return f"computes in {', '.join(record.dtypes)}, not in {dtype!r}"
    return None


def _kind_of(device: str) -> str:
    return device.partition(":")[0]


def _probe(registration: Registration[Backend]) -> str | None:
    """Why the backend cannot run on this machine, in its own words; ``None`` when it can."""
    probe = registration.record.probe
    if probe is None:
        return None
    function = load_target(registration, probe)
    module = probe.partition(":")[0]
    try:
        answer = function()
    except diagnosis.REPORTABLE as error:
        reason = f"its probe failed: {diagnosis.cause(error, module)}"
        position = diagnosis.where(error, module) or registration.file
        raise _broken(registration, reason, position) from error
    if answer is None or (isinstance(answer, str) and answer):
        return answer
    reason = f"its probe {probe} returned {answer!r}, expected None or a sentence"
    raise _broken(registration, reason, registration.file)


def _broken(registration: Registration[Backend], reason: str, position: str) -> PluginError:
    owner = f"{registration.owner}, backend {registration.id!r}"
    return PluginError(diagnosis.broken(owner, registration.distribution, reason, position))


def _known_backends(distribution: str) -> list[str]:
    return [id for id, provider in known_plugins().providers["backend"].items() if provider == distribution]


def _installable(registry: Registry, device: str | None) -> Iterator[str]:
    known = known_plugins()
    installed = {plugin.distribution for plugin in registry.plugins}
    for distribution, devices in known.devices.items():
        if distribution not in installed and (device is None or _kind_of(device) in devices):
            yield distribution
