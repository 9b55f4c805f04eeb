"""The calls in a region of an answer."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from modelhost.api.parsing import ParserContext, schema_types, typed_value

from .template import Field
from .values import read_value, transformed


def calls_in(field: Field, text: str, captures: Mapping[str, str], context: ParserContext) -> list[tuple[str, str]]:
    """Name and arguments, as JSON text, of each call that a region holds.

    Args:
        text: between its delimiters.
        captures: groups of what began it.

    Returns:
        nothing where the text is not written as the field says, or one of the calls is not complete.
    """
    try:
        value = read_value(text, field.content, field.arguments)
        if field.transform is not None and field.each:
            value = [transformed(field.transform, {**captures, **element}) for element in value]
        elif field.transform is not None:
            value = transformed(field.transform, {**captures, "content": value})
        return list(_calls(value, context))
    except (ValueError, KeyError, TypeError, IndexError):
        return []


def _calls(value: Any, context: ParserContext) -> Iterator[tuple[str, str]]:
    for item in value if isinstance(value, list) else [value]:
        name, arguments = item["function"]["name"], item["function"]["arguments"]
        if not isinstance(name, str) or not name or arguments is None:
            raise ValueError("a call without a name or arguments")
        if isinstance(arguments, dict):
            properties = context.properties(name)
            arguments = {key: _typed(argument, properties.get(key)) for key, argument in arguments.items()}
        yield name, arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)


def _typed(value: Any, schema: Any) -> Any:
    """Texts get the types that the tool's schema asks for; so do those of a list that repeated elements made."""
    if schema is None:
        return value
    if isinstance(value, list) and "array" not in schema_types(schema):
        return [_typed(one, schema) for one in value]
    return typed_value(value, schema) if isinstance(value, str) else value
