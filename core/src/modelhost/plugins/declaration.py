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

from modelhost.api import API, HOOKS, Record, compatible

from . import diagnosis
from .info import CORE, Found, PluginInfo, Registration, State

if TYPE_CHECKING:
    import pluggy

_PREFIX = "modelhost_"
_REPLACES = re.compile(r"[\w.-]+:.+")


class _Rejected(Exception):
    """Why the plugin cannot be used."""

    def __init__(self, state: State, text: str, api: tuple[int, int] | None = None) -> None:
        super().__init__(text)
        self.state: State = state
        self.api = api


def declare(manager: pluggy.PluginManager, found: Found) -> tuple[PluginInfo, tuple[Registration[Record], ...]]:
    """Imports the module that ``found`` names and collects its records.

    Nothing that the module does, short of ending the process, raises out of here: the state and the error of the
    returned info tell. The module stays registered in ``manager`` when its state is ``"ok"``.
    """
    started = time.perf_counter()
    api, location = None, found.location
    records: tuple[Record, ...] = ()
    info = PluginInfo.of(found, "ok", location)
    try:
        module = _import(found)
        location = getattr(module, "__file__", None) or location
        api = _api_number(module, found)
        records = _records(manager, module, found)
        info = replace(info, location=location, api=api, ids=_ids(records))
    except _Rejected as rejected:
        info = replace(info, state=rejected.state, location=location, api=api or rejected.api, error=str(rejected))
    except diagnosis.REPORTABLE as error:
        info = replace(info, state="broken", location=location, api=api, error=str(_raised(found, error)))
    info = replace(info, import_ms=round((time.perf_counter() - started) * 1000, 3))
    return info, tuple(
        Registration(record, found.distribution, found.version, found.entry_point, found.module, location, api or API)
        for record in records
    )


def disabled(found: Found, reason: str) -> PluginInfo:
    """The info of a plugin that was not imported because ``reason``."""
    info = PluginInfo.of(found, "disabled", found.location)
    return replace(info, error=f"{found.distribution} {found.version} is disabled: {reason}")


def _ids(records: Iterable[Record]) -> dict[str, tuple[str, ...]]:
    ids: dict[str, tuple[str, ...]] = {}
    for record in records:
        ids[record.kind] = (*ids.get(record.kind, ()), record.id)
    return ids


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
    if manager.is_registered(module):
        other = manager.get_name(module)
        raise _broken(found, f"its module {found.module!r} is already declared by {other}", module.__file__)
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
        if not isinstance(item, expected):
            raise _broken(found, f"{hook}() yielded {item!r}, expected {expected.__name__}", position)
        yield item


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
