"""The checks of a request's tools and tool choice."""

from __future__ import annotations

from typing import Any

import pytest

from modelhost.api import RequestError
from modelhost.engine.tools import check_tool_choice, check_tools
from modelhost.parsing.adjustment import ToolChoice


def tool(**function: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": "f", **function}}


def schema(**members: Any) -> list[dict[str, Any]]:
    return [tool(parameters={"type": "object", **members})]


GOOD = tool(
    description="Looks something up.",
    strict=None,
    parameters={
        "type": "object",
        "properties": {
            "a": {"type": ["string", "null"], "enum": ["x", None]},
            "b": {"anyOf": [{"type": "integer"}, {"type": "array", "items": {"type": "number"}}]},
            "c": {"$ref": "#/$defs/c"},
            "d": True,
        },
        "$defs": {"c": {"type": "object", "additionalProperties": False}},
        "required": ["a"],
    },
)


def test_well_formed_tools() -> None:
    assert check_tools([GOOD, tool(name="g", parameters=None), tool(name="mcp__x.y/z-1:查")]) == [
        GOOD,
        tool(name="g", parameters=None),
        tool(name="mcp__x.y/z-1:查"),
    ]
    assert check_tools(None) == check_tools([]) == []
    assert check_tools(schema()) == schema()
    assert check_tools([tool(parameters={})]) == [tool(parameters={})]


NAME = "must be a text without white space, quotes or brackets, got"
TYPES = "must be one of array, boolean, integer, null, number, object, string, or a list of these, got"


@pytest.mark.parametrize(
    ("tools", "message"),
    [
        ("get_weather", "tools: must be a list of tools, got 'get_weather'"),
        ({"name": "f"}, "tools: must be a list of tools, got {'name': 'f'}"),
        ([GOOD, "f"], "tools[1]: must be a mapping with 'type' and 'function', got 'f'"),
        ([{"name": "f"}], "tools[0].type: must be 'function', got None"),
        ([{"type": "web_search"}], "tools[0].type: must be 'function', got 'web_search'"),
        ([{"type": "function", "name": "f"}], "tools[0].function: must be a mapping with a name, got None"),
        ([{"type": "function", "function": {}}], f"tools[0].function.name: {NAME} None"),
        ([tool(name="")], f"tools[0].function.name: {NAME} ''"),
        ([tool(name="get weather")], f"tools[0].function.name: {NAME} 'get weather'"),
        ([tool(name='a"b')], f"tools[0].function.name: {NAME} 'a\"b'"),
        ([tool(name="a<b>")], f"tools[0].function.name: {NAME} 'a<b>'"),
        ([tool(), tool(name="g"), tool()], "tools[2].function.name: 'f' is the name of tools[0] too"),
        ([tool(description=3)], "tools[0].function.description: must be a text, got 3"),
        ([tool(strict="yes")], "tools[0].function.strict: must be true or false, got 'yes'"),
        ([tool(parameters=[])], "tools[0].function.parameters: must be a JSON schema, got []"),
        ([tool(parameters={"type": "string"})], "tools[0].function.parameters.type: must be 'object', got 'string'"),
        (
            schema(properties=["a"]),
            "tools[0].function.parameters.properties: must be a mapping of names to JSON schemas, got ['a']",
        ),
        (
            schema(properties={"a": {"type": "str"}}),
            f"tools[0].function.parameters.properties.a.type: {TYPES} 'str'",
        ),
        (
            schema(properties={"a": {"type": ["string", "none"]}}),
            f"tools[0].function.parameters.properties.a.type: {TYPES} ['string', 'none']",
        ),
        (
            schema(properties={"a": "string"}),
            "tools[0].function.parameters.properties.a: must be a JSON schema, got 'string'",
        ),
        (
            schema(properties={"a": {"items": {"anyOf": [{}, {"enum": "x"}]}}}),
            "tools[0].function.parameters.properties.a.items.anyOf[1].enum: must be a list of values, got 'x'",
        ),
        (
            schema(properties={"a": {"anyOf": {"type": "null"}}}),
            "tools[0].function.parameters.properties.a.anyOf: must be a list of JSON schemas, got {'type': 'null'}",
        ),
        (schema(required="a"), "tools[0].function.parameters.required: must be a list of names, got 'a'"),
        (schema(required=[1]), "tools[0].function.parameters.required: must be a list of names, got [1]"),
    ],
)
def test_malformed_tools(tools: Any, message: str) -> None:
    with pytest.raises(RequestError) as raised:
        check_tools(tools)
    assert str(raised.value) == message


def named(name: str) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name}}


def test_choices() -> None:
    tools = [tool(), tool(name="g")]
    assert check_tool_choice("auto", []) == ToolChoice("auto")
    assert check_tool_choice("none", []) == ToolChoice("none")
    assert check_tool_choice("required", tools, parallel=False) == ToolChoice("required", parallel=False)
    assert check_tool_choice(named("g"), tools) == ToolChoice("named", "g")


WANTED = "tool_choice: must be 'auto', 'none', 'required' or {'type': 'function', 'function': {'name': ...}}, got"


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        ("any", f"{WANTED} 'any'"),
        (None, f"{WANTED} None"),
        ({"name": "f"}, f"{WANTED} {{'name': 'f'}}"),
        ({"type": "function"}, "tool_choice.function: must be a mapping with a name, got None"),
        ({"type": "function", "function": {}}, "tool_choice.function.name: must be the name of a tool, got None"),
        (named("weather"), "tool_choice.function.name: there is no tool 'weather'; did you mean 'get_weather'?"),
    ],
)
def test_malformed_choices(choice: Any, message: str) -> None:
    with pytest.raises(RequestError) as raised:
        check_tool_choice(choice, [tool(name="get_weather")])
    assert str(raised.value) == message


@pytest.mark.parametrize(("choice", "text"), [("required", "'required'"), (named("f"), "function 'f'")])
def test_forced_choices_need_tools(choice: Any, text: str) -> None:
    with pytest.raises(RequestError) as raised:
        check_tool_choice(choice, [])
    assert str(raised.value) == f"tool_choice {text} needs tools, and the request has none"
