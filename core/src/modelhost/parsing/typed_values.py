"""Gives parameters that were written as plain text the types that a tool's schema asks for."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

_ORDER = ("null", "integer", "number", "boolean", "object", "array", "string")
_ALIASES = {
    "int": "integer",
    "float": "number",
    "double": "number",
    "bool": "boolean",
    "dict": "object",
    "list": "array",
    "str": "string",
    "text": "string",
}
_DEPTH = 16
_ESCAPED = re.compile(r'["\\\x00-\x1f]')


def json_string(text: str) -> str:
    """The inside of a JSON string that holds `text`. Pieces may be converted one by one."""
    return json.dumps(text, ensure_ascii=False)[1:-1] if _ESCAPED.search(text) else text


def to_json(value: Any) -> str:
    """JSON text of a value."""
    return json.dumps(value, ensure_ascii=False)


def schema_types(schema: Any, depth: int = 0) -> frozenset[str]:
    """The JSON types that a property's schema allows. A schema that says nothing allows a string only."""
    if not isinstance(schema, Mapping) or depth > _DEPTH:
        return frozenset({"string"})
    return frozenset(_types(schema, depth)) or frozenset({"string"})


def typed_value(text: str, schema: Any, depth: int = 0) -> Any:
    """The value that `text` stands for.

    The types that the schema allows are tried in the order null, integer, number, boolean, object or array, string.
    Where none fits, text that is JSON is taken as such unless the schema allows strings, and other text stays a string.
    """
    types = schema_types(schema, depth)
    for name in _ORDER:
        if name in types:
            fits, value = _as(name, text)
            if fits:
                return _typed_inside(value, schema, depth)
    fits, value = _from_json(text)
    return value if fits else text


def _types(schema: Mapping[str, Any], depth: int) -> Iterator[str]:
    kind = schema.get("type")
    for name in kind if isinstance(kind, list) else [kind]:
        if isinstance(name, str):
            yield _ALIASES.get(name.lower(), name.lower())
    values = schema.get("enum")
    if kind is None and isinstance(values, list):
        yield from (_type_of(value) for value in values)
    for key in ("anyOf", "oneOf", "allOf"):
        choices = schema.get(key)
        for choice in choices if isinstance(choices, list) else ():
            if isinstance(choice, Mapping):
                yield from _types(choice, depth + 1) if depth < _DEPTH else ()
    if kind is None and "properties" in schema:
        yield "object"
    if kind is None and "items" in schema:
        yield "array"


def _type_of(value: Any) -> str:
    if value is None:
        return "null"
    for kind, name in ((bool, "boolean"), (int, "integer"), (float, "number"), (dict, "object"), (list, "array")):
        if isinstance(value, kind):
            return name
    return "string"


def _as(name: str, text: str) -> tuple[bool, Any]:
    stripped = text.strip()
    if name == "null":
        return stripped.lower() in ("null", "none"), None
    if name == "boolean":
        lowered = stripped.lower()
        return lowered in ("true", "false", "1", "0"), lowered in ("true", "1")
    if name == "string":
        return True, text
    if name in ("integer", "number"):
        return _number(stripped, name)
    fits, value = _from_json(stripped)
    return fits and isinstance(value, dict if name == "object" else list), value


def _number(text: str, name: str) -> tuple[bool, Any]:
    try:
        return True, int(text)
    except ValueError:
        pass
    if name == "integer":
        return False, None
    try:
        value = float(text)
    except ValueError:
        return False, None
    if not math.isfinite(value):
        return False, None
    return True, int(value) if value.is_integer() and abs(value) < 2**63 else value


def _from_json(text: str) -> tuple[bool, Any]:
    try:
        value = json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        return False, None
    return True, value


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _typed_inside(value: Any, schema: Any, depth: int) -> Any:
    """Types strings within objects and lists by their own schemas."""
    if depth >= _DEPTH or not isinstance(schema, Mapping):
        return value
    if isinstance(value, dict) and isinstance(schema.get("properties"), Mapping):
        inner = schema["properties"]
        return {key: _retyped(item, inner.get(key), depth + 1) for key, item in value.items()}
    if isinstance(value, list) and "items" in schema:
        return [_retyped(item, schema["items"], depth + 1) for item in value]
    return value


def _retyped(value: Any, schema: Any, depth: int) -> Any:
    if isinstance(value, str):
        return typed_value(value, schema, depth) if schema is not None else value
    return _typed_inside(value, schema, depth)
