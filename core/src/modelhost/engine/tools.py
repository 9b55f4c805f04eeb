"""Checks the tools of a request and the choice among them. Every error names the path of what is wrong."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from modelhost.api import RequestError
from modelhost.parsing.adjustment import ToolChoice

__all__ = ["Tool", "check_tool_choice", "check_tools"]

Tool = Mapping[str, Any]
"""``{"type": "function", "function": {"name", "description", "parameters", "strict"}}``, as in OpenAI's API."""

_NAME = re.compile(r"""[^\s"'<>{}\[\]()\\`]+""")
_TYPES = ("array", "boolean", "integer", "null", "number", "object", "string")
_SCHEMA_MAPS = ("properties", "patternProperties", "$defs", "definitions")
_SCHEMA_LISTS = ("anyOf", "oneOf", "allOf", "prefixItems")
_SCHEMAS = ("items", "additionalProperties", "not")


def check_tools(tools: object) -> list[dict[str, Any]]:
    """``tools`` as plain dicts; none when it is ``None`` or empty.

    Raises:
        RequestError: a tool is malformed; the text begins with its path, such as ``tools[0].function.name``.
    """
    if tools is None:
        return []
    if not isinstance(tools, Sequence) or isinstance(tools, str | bytes):
        raise _wrong("tools", "a list of tools", tools)
    first: dict[str, int] = {}
    for index, tool in enumerate(tools):
        name = _check_tool(f"tools[{index}]", tool)
        if name in first:
            raise RequestError(f"tools[{index}].function.name: {name!r} is the name of tools[{first[name]}] too")
        first[name] = index
    return [{**tool, "type": "function", "function": dict(tool["function"])} for tool in tools]


def check_tool_choice(choice: object, tools: Sequence[Tool], *, parallel: bool = True) -> ToolChoice:
    """The choice among checked tools.

    Args:
        choice: ``"auto"``, ``"none"``, ``"required"`` or ``{"type": "function", "function": {"name": NAME}}``.

    Raises:
        RequestError: it is none of these, names a tool that is not offered, or there are no tools to choose from.
    """
    if not isinstance(parallel, bool):
        raise _wrong("parallel_tool_calls", "true or false", parallel)
    if choice == "auto" or choice == "none":
        return ToolChoice("auto" if choice == "auto" else "none", parallel=parallel)
    if choice == "required":
        _need_tools("'required'", tools)
        return ToolChoice("required", parallel=parallel)
    name = _named(choice)
    _need_tools(f"function {name!r}", tools)
    names = [tool["function"]["name"] for tool in tools]
    if name not in names:
        close = get_close_matches(name, names, 1) or names[:1]
        raise RequestError(f"tool_choice.function.name: there is no tool {name!r}; did you mean {close[0]!r}?")
    return ToolChoice("named", name, parallel=parallel)


def _named(choice: object) -> str:
    wanted = "'auto', 'none', 'required' or {'type': 'function', 'function': {'name': ...}}"
    if not isinstance(choice, Mapping) or choice.get("type") != "function":
        raise _wrong("tool_choice", wanted, choice)
    function = choice.get("function")
    if not isinstance(function, Mapping):
        raise _wrong("tool_choice.function", "a mapping with a name", function)
    name = function.get("name")
    if not isinstance(name, str):
        raise _wrong("tool_choice.function.name", "the name of a tool", name)
    return name


def _need_tools(choice: str, tools: Sequence[Tool]) -> None:
    if not tools:
        raise RequestError(f"tool_choice {choice} needs tools, and the request has none")


def _check_tool(path: str, tool: object) -> str:
    if not isinstance(tool, Mapping):
        raise _wrong(path, "a mapping with 'type' and 'function'", tool)
    if tool.get("type") != "function":
        raise _wrong(f"{path}.type", "'function'", tool.get("type"))
    function = tool.get("function")
    if not isinstance(function, Mapping):
        raise _wrong(f"{path}.function", "a mapping with a name", function)
    path = f"{path}.function"
    name = function.get("name")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise _wrong(f"{path}.name", "a text without white space, quotes or brackets", name)
    if not isinstance(function.get("description") or "", str):
        raise _wrong(f"{path}.description", "a text", function["description"])
    if not isinstance(function.get("strict") or False, bool):
        raise _wrong(f"{path}.strict", "true or false", function["strict"])
    parameters = function.get("parameters")
    if parameters is not None:
        _check_parameters(f"{path}.parameters", parameters)
    return name


def _check_parameters(path: str, schema: object) -> None:
    if not isinstance(schema, Mapping):
        raise _wrong(path, "a JSON schema", schema)
    if schema.get("type", "object") != "object":
        raise _wrong(f"{path}.type", "'object'", schema["type"])
    _check_schema(path, schema)


def _check_schema(path: str, schema: object) -> None:
    """The parts of a JSON schema that parsers and grammars read; the rest is left to those who use it."""
    if isinstance(schema, bool):
        return
    if not isinstance(schema, Mapping):
        raise _wrong(path, "a JSON schema", schema)
    _check_type(f"{path}.type", schema.get("type"))
    for key in _SCHEMA_MAPS:
        members = schema.get(key, {})
        if not isinstance(members, Mapping):
            raise _wrong(f"{path}.{key}", "a mapping of names to JSON schemas", members)
        for name, member in members.items():
            _check_schema(f"{path}.{key}.{name}", member)
    for key in _SCHEMA_LISTS:
        alternatives = schema.get(key, ())
        if not _is_list(alternatives):
            raise _wrong(f"{path}.{key}", "a list of JSON schemas", alternatives)
        for index, alternative in enumerate(alternatives):
            _check_schema(f"{path}.{key}[{index}]", alternative)
    for key in _SCHEMAS:
        if key in schema:
            _check_schema(f"{path}.{key}", schema[key])
    required = schema.get("required", ())
    if not _is_list(required) or not all(isinstance(name, str) for name in required):
        raise _wrong(f"{path}.required", "a list of names", required)
    if not _is_list(schema.get("enum", ())):
        raise _wrong(f"{path}.enum", "a list of values", schema["enum"])


def _check_type(path: str, kind: object) -> None:
    if kind is None:
        return
    for one in kind if _is_list(kind) else (kind,):  # type: ignore[attr-defined]
        if one not in _TYPES:
            raise _wrong(path, f"one of {', '.join(_TYPES)}, or a list of these", kind)


def _is_list(value: object) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def _wrong(path: str, wanted: str, value: object) -> RequestError:
    return RequestError(f"{path}: must be {wanted}, got {value!r}")
