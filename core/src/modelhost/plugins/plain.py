"""Records as plain data and back, so that they can be kept on disk and sent to other processes."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from modelhost.api import HOOKS, PluginError, Record

CLASSES: dict[str, type[Record]] = {record.kind: record for record in HOOKS.values()}


def to_plain(record: Record) -> dict[str, Any]:
    """The fields of ``record`` that are not at their default, as JSON can hold them.

    Raises:
        PluginError: a field holds something else than texts, numbers, ``True``, ``False``, ``None``, and tuples and
            tables of these.
    """
    values = {}
    for field in fields(record):
        value = getattr(record, field.name)
        if value != field.default or type(value) is not type(field.default):
            values[field.name] = _plain(value, f"{record.kind} {record.id!r}: {field.name}")
    return values


def from_plain(kind: str, values: dict[str, Any]) -> Record:
    """The record of ``kind`` with these fields. Lists become tuples.

    Raises:
        KeyError: there is no such kind.
        TypeError: there is no such field, or one is missing.
        PluginError: a field has a value that is not allowed.
    """
    return CLASSES[kind](**{name: _frozen(value) for name, value in values.items()})


def _plain(value: object, where: str) -> Any:
    if value is None or type(value) in {str, int, float, bool}:
        return value
    if isinstance(value, list | tuple):
        return [_plain(item, where) for item in value]
    if isinstance(value, dict) and all(type(key) is str for key in value):
        return {key: _plain(item, where) for key, item in value.items()}
    raise PluginError(f"{where} must be plain data (texts, numbers, tuples), got {value!r}")


def _frozen(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(_frozen(item) for item in value)
    if isinstance(value, dict):
        return {key: _frozen(item) for key, item in value.items()}
    return value
