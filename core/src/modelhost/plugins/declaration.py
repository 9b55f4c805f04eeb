"""Imports one declaring module, runs its hooks and turns whatever goes wrong into the plugin's state."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import re
import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from inspect import isfunction
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeGuard

from modelhost.api import API, HOOKS, PluginError, Record, compatible

from . import diagnosis
from .info import CORE, Found, PluginInfo, Registration, State
from .plain import from_plain, to_plain
from .time_limit import TimeLimitExceeded, run_limited

if TYPE_CHECKING:
    import pluggy

TIME_LIMIT_S = 10.0
"""Seconds that a plugin may take to declare its records."""
_PREFIX = "modelhost_"
_REPLACES = re.compile(r"[\w.-]+:.+")


class _Rejected(Exception):
    """Why the plugin cannot be used."""

    def __init__(self, state: State, text: str, api: tuple[int, int] | None = None) -> None:
        super().__init__(text)
        self.state: State = state
        self.api = api


def declare(
    manager: pluggy.PluginManager, found: Found, time_limit_s: float = TIME_LIMIT_S
) -> tuple[PluginInfo, tuple[Registration[Record], ...]]:
    """Imports the module that ``found`` names and collects its records.

    Nothing that the module does, short of ending the process, raises out of here: the state and the error of the
    returned info tell. The module stays registered in ``manager`` when its state is ``"ok"``.

    Args:
        time_limit_s: seconds that the import and the hooks may take together.
    """
    started = time.perf_counter()
    info, records = _Declaration(manager, found).outcome(time_limit_s)
    info = replace(info, import_ms=round((time.perf_counter() - started) * 1000, 3), ids=info.ids_of(records))
    return info, info.registrations(records)


class _Declaration:
    """One attempt. What is known of the plugin so far is kept, for the report when a later step fails."""

    def __init__(self, manager: pluggy.PluginManager, found: Found) -> None:
        self.manager = manager
        self.found = found
        self.info = PluginInfo.of(found, "ok", found.location)
        self.late = False

    def outcome(self, time_limit_s: float) -> tuple[PluginInfo, tuple[Record, ...]]:
        try:
            records = run_limited(self._records, time_limit_s)
            return self.info, records
        except TimeLimitExceeded as error:
            self.late = True
            return replace(
                self.info, state="broken", error=str(_late(self.found, error, time_limit_s)), timed_out=True
            ), ()
        except _Rejected as rejected:
            api = self.info.api or rejected.api
            return replace(self.info, state=rejected.state, api=api, error=str(rejected)), ()
        except diagnosis.REPORTABLE as error:
            return replace(self.info, state="broken", error=str(_raised(self.found, error))), ()

    def _records(self) -> tuple[Record, ...]:
        module = _import(self.found)
        self.info = replace(self.info, location=getattr(module, "__file__", None) or self.info.location)
        self.info = replace(self.info, api=_api_number(module, self.found))
        if self.late:
            return ()
        return _records(self.manager, module, self.found)


def _late(found: Found, error: TimeLimitExceeded, time_limit_s: float) -> _Rejected:
    reason = f"its declaring module {found.module!r} takes longer than {time_limit_s:g} s"
    return _broken(found, reason, diagnosis.position(reversed(error.frames), found.module) or found.location)


def repeated(found: Found, first: PluginInfo) -> PluginInfo:
    """The info of a plugin whose module the plugin ``first`` declares already."""
    reason = f"its module {found.module!r} is already declared by {first.distribution}:{first.entry_point}"
    return replace(PluginInfo.of(found, "broken", first.location), error=str(_broken(found, reason, first.location)))


def _broken(found: Found, reason: str, position: str | None) -> _Rejected:
    return _Rejected("broken", diagnosis.broken(str(found), found.distribution, reason, position))


def _raised(found: Found, error: BaseException, during: str = "") -> _Rejected:
    position = diagnosis.where(error, found.module) or found.location
    return _broken(found, during + diagnosis.cause(error, found.module), position)


def _import(found: Found) -> ModuleType:
    if found.problem:
        raise _broken(found, found.problem, None)
    if ":" in found.module:
        raise _broken(found, f"its entry point must name a module, got {found.module!r}", found.location)
    try:
        return importlib.import_module(found.module)
    except diagnosis.REPORTABLE as error:
        stated = _stated_api(found.module)
        if stated and not compatible(stated):
            raise _incompatible(found, stated) from error
        raise _raised(found, error) from error


def _stated_api(module: str) -> tuple[int, int] | None:
    """The API number in the source of a module whose import failed: a newer one explains names missing here."""
    try:
        spec = importlib.util.find_spec(module)
        source = spec.loader.get_source(module) if spec and spec.loader else None  # type: ignore[attr-defined]
        values = [ast.literal_eval(node.value) for node in ast.parse(source or "").body if _assigns_api(node)]
    except diagnosis.REPORTABLE:
        return None
    return values[-1] if values and _is_api(values[-1]) else None


def _assigns_api(node: ast.stmt) -> TypeGuard[ast.Assign]:
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    return any(isinstance(target, ast.Name) and target.id == "API" for target in targets)


def _is_api(value: object) -> TypeGuard[tuple[int, int]]:
    return isinstance(value, tuple) and len(value) == 2 and all(type(number) is int for number in value)


def _api_number(module: ModuleType, found: Found) -> tuple[int, int]:
    api: Any = getattr(module, "API", None)
    if api is None:
        raise _broken(
            found, f"it states no API number; add the line API = {API} to its declaring module", module.__file__
        )
    if not _is_api(api):
        raise _broken(found, f"API must be two integers such as {API}, got {api!r}", module.__file__)
    if not compatible(api):
        raise _incompatible(found, api)
    return api[0], api[1]


def _incompatible(found: Found, api: tuple[int, int]) -> _Rejected:
    if api > API:
        remedy = f"Upgrade modelhost: pip install -U {CORE}"
    else:
        remedy = f"Upgrade the plugin: pip install -U {found.distribution}"
    text = f"{found} was built for API {api[0]}.{api[1]}, this modelhost has API {API[0]}.{API[1]}. {remedy}"
    return _Rejected("incompatible", text, api)


def _records(manager: pluggy.PluginManager, module: ModuleType, found: Found) -> tuple[Record, ...]:
    _check_markers(module, found)
    _register(manager, module, found)
    try:
        records: dict[tuple[str, str], Record] = {}
        for hook, implementation in _implementations(manager, module):
            for record in _run(hook, implementation, found):
                _add(records, record, implementation, found)
    except BaseException:
        manager.unregister(module)
        raise
    return tuple(records.values())


def _implementations(manager: pluggy.PluginManager, module: ModuleType) -> Iterator[tuple[str, pluggy.HookImpl]]:
    for caller in manager.get_hookcallers(module) or ():
        for implementation in caller.get_hookimpls():
            if implementation.plugin is module:
                yield caller.name, implementation


def _register(manager: pluggy.PluginManager, module: ModuleType, found: Found) -> None:
    try:
        manager.register(module, name=f"{found.distribution}:{found.entry_point}")
    except Exception as error:
        raise _broken(found, " ".join(str(error).split()), module.__file__) from error


def _check_markers(module: ModuleType, found: Found) -> None:
    """A function that has a hook's name but lacks the mark would be ignored in silence."""
    for name, value in vars(module).items():
        if name.startswith(_PREFIX) and isfunction(value) and not hasattr(value, "modelhost_impl"):
            raise _broken(found, f"{name}() lacks the decorator @hookimpl", _position(value))


def _run(hook: str, implementation: pluggy.HookImpl, found: Found) -> Iterator[Record]:
    function, position = implementation.function, _position(implementation.function)
    if hook not in HOOKS and implementation.optionalhook:
        return
    if hook not in HOOKS:
        best = diagnosis.closest(hook, HOOKS, 1)[0]
        raise _broken(found, f"there is no hook {hook!r}; did you mean {best!r}?", position)
    if implementation.wrapper or implementation.hookwrapper:
        raise _broken(found, f"{hook}() is a hook wrapper; hooks only declare records", position)
    expected = HOOKS[hook]
    try:
        result: Any = function()
        items = list(result) if isinstance(result, Iterable) else None
    except diagnosis.REPORTABLE as error:
        raise _raised(found, error, f"{hook}() failed: ") from error
    if items is None:
        reason = f"{hook}() returned {type(result).__name__}, expected an iterable of {expected.__name__}"
        raise _broken(found, reason, position)
    for item in items:
        if type(item) is not expected:
            raise _broken(found, f"{hook}() yielded {item!r}, expected {expected.__name__}", position)
        yield _plain(item, found, position)


def _plain(record: Record, found: Found, position: str) -> Record:
    """The record as a later start gets it from the cache, so that both are the same."""
    try:
        return from_plain(record.kind, to_plain(record))
    except PluginError as error:
        raise _broken(found, str(error), position) from error


def _add(records: dict[tuple[str, str], Record], record: Record, implementation: pluggy.HookImpl, found: Found) -> None:
    position = _position(implementation.function)
    if (record.kind, record.id) in records:
        raise _broken(found, f"it declares {record.kind} {record.id!r} twice", position)
    if record.replaces is not None and not _REPLACES.fullmatch(record.replaces):
        reason = f'{record.kind} {record.id!r}: replaces must look like "distribution:id", got {record.replaces!r}'
        raise _broken(found, reason, position)
    records[record.kind, record.id] = record


def _position(function: Any) -> str:
    code = function.__code__
    return f"{code.co_filename}:{code.co_firstlineno}"
