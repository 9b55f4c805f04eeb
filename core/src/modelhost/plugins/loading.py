"""Imports the target of a record that was selected."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from modelhost.api import ConfigError, PluginError

from . import diagnosis
from .info import Registration

if TYPE_CHECKING:
    from .registry import Registry


def load_target(registration: Registration[Any], target: str | None = None) -> Any:
    """The object that the record's ``target`` names.

    Args:
        target: another ``"package.module:attribute"`` of the same record, such as its probe.

    Raises:
        PluginError: it cannot be imported; the text has the cause, the distribution, file and line, and the command
            that removes the plugin.
    """
    target = target or registration.record.target
    what = f"{registration.owner}, {registration.kind} {registration.id!r}"
    return import_target(target, what, registration.distribution, registration.file)


def import_target(target: str, owner: str, distribution: str, declared_in: str) -> Any:
    """The object at ``"package.module:attribute"``.

    Args:
        owner: what messages call the plugin.
        distribution: that provides it.
        declared_in: the file to point at when the plugin's own code is not to blame for the failure.

    Raises:
        PluginError: as :func:`load_target`.
    """
    module_name, _, path = target.partition(":")
    try:
        found: Any = importlib.import_module(module_name)
    except diagnosis.REPORTABLE as error:
        position = diagnosis.where(error, module_name) or declared_in
        reason = f"{target} cannot be imported: {diagnosis.cause(error, module_name)}"
        raise PluginError(diagnosis.broken(owner, distribution, reason, position)) from error
    position = getattr(found, "__file__", None) or declared_in
    for name in path.split("."):
        try:
            found = getattr(found, name)
        except AttributeError as error:
            best = diagnosis.closest(name, (known for known in dir(found) if not known.startswith("__")), 1)
            hint = f"; did you mean {best[0]!r}?" if best else ""
            reason = f"{module_name} has no attribute {path!r}{hint}"
            raise PluginError(diagnosis.broken(owner, distribution, reason, position)) from error
    return found


def takes_setting(registration: Registration[Any], key: str) -> bool:
    """Whether the record's settings model has a field ``key``.

    Raises:
        PluginError: the settings model cannot be imported.
    """
    settings = registration.record.settings
    return settings is not None and _allows(load_target(registration, settings), key)


def plugin_settings(
    registry: Registry, registration: Registration[Any], given: Mapping[str, Any] | None = None, path: str = ""
) -> Any:
    """The user's settings as an instance of the record's settings model; ``None`` when it has no model.

    Args:
        given: settings stated elsewhere than in the ``[plugin.<id>]`` table, which they override.
        path: what messages call the place where ``given`` was stated.

    Raises:
        ConfigError: a key is unknown or a value is not valid; the text has the key's full path. Also when there are
            settings and the record takes none.
        PluginError: the settings model cannot be imported.
    """
    id, target = registration.id, registration.record.settings
    of_file, stated = registry.settings.plugin.get(id, {}), given or {}
    table = {**of_file, **stated}
    file = _Place(f"{registry.settings.source('plugin')}: ", f"plugin.{id}")
    elsewhere = file if given is None else _Place("", path)

    def place(key: object) -> _Place:
        return file if key in of_file and key not in stated else elsewhere

    if target is None:
        if table and (stated or not _taken_by_another(registry, id)):
            raise ConfigError(f"{elsewhere if stated else file}: {registration.kind} {id!r} takes no settings")
        return None
    model = load_target(registration, target)
    for key in table:
        if not _allows(model, key):
            raise ConfigError(place(key).unknown(key, _keys(model)))
    from pydantic import ValidationError

    try:
        return model.model_validate(table)
    except ValidationError as error:
        raise ConfigError("\n".join(_problems(error, place))) from error


def _keys(model: Any) -> set[str]:
    return {field.alias or name for name, field in model.model_fields.items()}


def _allows(model: Any, key: str) -> bool:
    return key in _keys(model) or model.model_config.get("extra") == "allow"


class _Place(NamedTuple):
    """Where settings were stated: a file with ``": "`` after it, or nothing, and the path of keys in it."""

    source: str
    path: str

    def unknown(self, key: str, known: set[str]) -> str:
        best = diagnosis.closest(key, known, 1)
        hint = f"; did you mean {self.path}.{best[0]}?" if best else ""
        return f"{self.source}unknown key {self.path}.{key}{hint}"

    def __str__(self) -> str:
        return self.source + self.path


def _taken_by_another(registry: Registry, id: str) -> bool:
    from .registry import KINDS

    claims = (claim for kind in KINDS for claim in registry.claims(kind).get(id, ()))
    return any(claim.record.settings is not None for claim in claims)


def _problems(error: Any, place: Callable[[object], _Place]) -> list[str]:
    return [
        f"{'.'.join((str(place(next(iter(e['loc']), None))), *map(str, e['loc'])))}: {e['msg']}, got {e['input']!r}"
        for e in error.errors()
    ]
