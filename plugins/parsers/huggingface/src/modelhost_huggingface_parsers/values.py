"""Reads the text of a region as a value, in the ways that response templates name."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from modelhost.api.parsing import ParserContext, PythonicCalls, parse

_PLACEHOLDER = re.compile(r"\{(\w+(?:\.\w+)*)\}")
Settings = Mapping[str, Any]


def read_value(text: str, parser: str, settings: Settings) -> Any:
    """The value that `text` stands for.

    Raises:
        ValueError, KeyError, TypeError: it is not written in the way that `parser` reads.
    """
    return CONTENT_PARSERS[parser](text, settings)


def transformed(form: Any, values: Mapping[str, Any]) -> Any:
    """`form` with each text `{NAME}` or `{NAME.KEY}` replaced by the value of that name.

    Raises:
        KeyError, TypeError: there is no such value.
    """
    if isinstance(form, Mapping):
        return {key: transformed(value, values) for key, value in form.items()}
    if isinstance(form, list):
        return [transformed(value, values) for value in form]
    match = _PLACEHOLDER.fullmatch(form) if isinstance(form, str) else None
    if match is None:
        return form
    value: Any = values
    for key in match[1].split("."):
        value = value[key]
    return value


def _text(text: str, settings: Settings) -> str:
    return text.strip() if settings.get("strip", True) else text


def _int(text: str, settings: Settings) -> int:
    return int(text)


def _float(text: str, settings: Settings) -> float:
    return float(text)


def _bool(text: str, settings: Settings) -> bool:
    return text.strip().lower() in ("true", "1")


def _json(text: str, settings: Settings) -> Any:
    """JSON; optionally with texts between other quotes (`string_delims`) and keys without any (`unquoted_keys`)."""
    try:
        return json.loads(_standard(text, settings))
    except (ValueError, RecursionError):
        if settings.get("allow_non_json"):
            return text.strip()
        raise ValueError("not JSON") from None


def _standard(text: str, settings: Settings) -> str:
    """The same in plain JSON. Nothing within a text is changed."""
    quotes = [tuple(map(re.escape, pair)) for pair in settings.get("string_delims", [])]
    parts = [rf"{left}(?P<text{index}>.*?){right}" for index, (left, right) in enumerate(quotes)]
    parts.append(r'"(?:\\.|[^"\\])*"')
    if settings.get("unquoted_keys"):
        parts.append(r"(?<=[{,])(?P<space>\s*)(?P<key>\w+)(?P<after>\s*:)")

    def standard(match: re.Match[str]) -> str:
        found = match.groupdict()
        if found.get("key") is not None:
            return f'{found["space"]}"{found["key"]}"{found["after"]}'
        inner = next((found[f"text{index}"] for index in range(len(quotes)) if found[f"text{index}"] is not None), None)
        return match.group() if inner is None else json.dumps(inner, ensure_ascii=False)

    return re.sub("|".join(parts), standard, text, flags=re.DOTALL)


def _elements(text: str, settings: Settings) -> dict[str, Any]:
    """An object from what `tag_pattern` finds: its groups `key` and `value`."""
    values: dict[str, Any] = {}
    repeated: set[str] = set()
    for match in re.finditer(settings["tag_pattern"], text, re.DOTALL):
        key, value = match["key"], _inner(match["value"], settings)
        if key in values and settings.get("merge_duplicates"):
            values[key] = [*(values[key] if key in repeated else [values[key]]), value]
            repeated.add(key)
        else:
            values[key] = value
    return values


def _lines(text: str, settings: Settings) -> dict[str, Any]:
    """An object from lines `KEY:VALUE`."""
    separator = settings.get("kv_sep", ":")
    pairs = (line.split(separator, 1) for line in text.split(settings.get("line_sep", "\n")) if separator in line)
    return {key.strip(): _inner(value.strip(), settings) for key, value in pairs}


def _python_calls(text: str, settings: Settings) -> list[dict[str, Any]]:
    """Calls in Python, `[NAME(KEY=VALUE), ...]`."""
    result = parse(PythonicCalls(bare=True)(ParserContext()), text)
    if result.content.strip() or (not result.calls and text.strip() != "[]"):
        raise ValueError("not a list of calls")
    return [{"name": call.name, "arguments": json.loads(call.arguments)} for call in result.calls]


def _inner(text: str, settings: Settings) -> Any:
    """A value within another."""
    parser = settings.get("value_parser")
    return text if parser is None else read_value(text, parser.get("name", "text"), parser.get("args", {}))


CONTENT_PARSERS: Mapping[str, Callable[[str, Settings], Any]] = {
    "text": _text,
    "int": _int,
    "float": _float,
    "bool": _bool,
    "json": _json,
    "xml-inline": _elements,
    "kv-lines": _lines,
    "python-call-list": _python_calls,
}
"""By the names that response templates have for them."""
