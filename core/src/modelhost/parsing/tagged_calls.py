"""Calls written as XML-like tags with one element for each parameter."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from .call_syntax import CallSyntax
from .context import ParserContext
from .engine import MarkedText, ToolEngine
from .typed_values import json_string, schema_types, to_json, typed_value

_LONGEST_HEADER = 4096
_JSON = {"type": ["object", "array", "null", "number", "boolean"]}


@dataclass(frozen=True)
class Tag:
    """An opening tag that holds a name.

    Attributes:
        open: the fixed text that it begins with.
        end: texts that end it and belong to it.
        before: texts that end it and do not belong to it.
        header: regular expression of what stands in between, without white space at its ends: the group `name`; for a
            parameter optionally one of two more. The group `string` says whether the value is text (`true`, `string`)
            or JSON (anything else). The group `type` is a JSON type, which decides where the tool's schema allows
            several or has no such parameter.
    """

    open: str
    end: tuple[str, ...] = (">",)
    before: tuple[str, ...] = ()
    header: str = r"(?P<name>[^<>]+)"


@dataclass(frozen=True, kw_only=True)
class TaggedCalls:
    """Format of calls such as `<call=NAME><parameter=KEY>VALUE</parameter></call>`.

    The types of values come from the request's tools. Strings are passed on as they arrive.

    Attributes:
        call: the tag that begins a call.
        parameter: the tag that begins a parameter.
        value: text between the parameter's tag and its value, where there is one.
        parameter_end, call_end: closing tags; they may be missing in the output.
        open, close: tags around a group of calls; calls count without them.
        implicit_end: texts that end a value whose closing tag is missing; they are read again as tags.
        trim: what is cut off both ends of a value: nothing, one newline, or all white space.
        known_tools_only: a call of a tool that the request does not offer is not a call.
        unwrap: names of a lone parameter that holds the arguments as one object, unless the schema has such a name.
        entities: names are written with `&quot;` and `&amp;`.
        strip: see ToolEngine.
        syntax: a call as the models write it, for a forced tool choice.
    """

    call: Tag
    parameter: Tag
    parameter_end: tuple[str, ...]
    call_end: tuple[str, ...]
    value: str = ""
    open: tuple[str, ...] = ()
    close: tuple[str, ...] = ()
    implicit_end: tuple[str, ...] = ()
    trim: Literal["nothing", "newline", "space"] = "nothing"
    known_tools_only: bool = False
    unwrap: tuple[str, ...] = ()
    entities: bool = False
    strip: bool = False
    syntax: CallSyntax | None = None

    def __call__(self, context: ParserContext) -> TaggedCallsParser:
        return TaggedCallsParser(self, context)


class TaggedCallsParser(ToolEngine):
    """Parser of the format `TaggedCalls`."""

    def __init__(self, form: TaggedCalls, context: ParserContext) -> None:
        super().__init__(strip=form.strip)
        self._form = form
        self._context = context
        self._outer = MarkedText(*form.open, form.call.open)
        self._group = MarkedText(*form.open, form.call.open, *form.close)
        around = (*form.open, form.call.open, *form.close, *form.call_end)
        self._call_head = MarkedText(*form.call.end, *form.call.before, *around, form.parameter.open)
        self._body = MarkedText(form.parameter.open, *form.parameter_end, *around)
        self._parameter_head = MarkedText(*form.parameter.end, *form.parameter.before, form.parameter.open, *around)
        self._value_head = MarkedText(*([form.value] if form.value else []), form.parameter.open, *around)
        self._value_end = MarkedText(*form.parameter_end, *form.implicit_end)
        self._call_header = re.compile(form.call.header, re.DOTALL)
        self._parameter_header = re.compile(form.parameter.header, re.DOTALL)
        self._held: list[str] = []  # text of what may still turn out not to be a call or a parameter
        self._head: list[str] = []  # of that, the text after the fixed beginning of a tag
        self._head_length = 0
        self._parameter = ""
        self._said: str | None = None  # whether the value of the parameter is text, as its tag says
        self._schema: Any = None  # of the parameter
        self._tail = ""
        self._in_group = False
        self._properties: Mapping[str, Any] = {}
        self._begin_body()

    def _begin_body(self) -> None:
        self._count = 0
        self._unfinished = False
        self._wrapped: tuple[str, str] | None = None
        self._value: list[str] = []

    def start(self) -> bool:
        """Outside calls."""
        text, marker = self._group.read(self, in_markup=not self._held) if self._in_group else self._outer.read(self)
        if self._held and text:
            self._held.append(text)
            if text.strip():
                self._in_group = False
                self._release()
                self.at -= len(marker or "")  # read it again, outside a group
                return marker is not None
        else:
            self.content(text)
        return marker is not None and self._outer_marker(marker)

    def _outer_marker(self, marker: str) -> bool:
        if marker == self._form.call.open:
            self._held.append(marker)
            self.state = self._in_call_tag
        elif marker in self._form.open:
            self._held.append(marker)
            self._in_group = True
        else:
            self._in_group = False
            if self._held:
                self._held.append(marker)
                self._release()
            else:
                self.drop_space()
        return True

    def _in_call_tag(self) -> bool:
        header = self._header(self._call_head, self._form.call)
        if header is None:
            return False
        match = self._call_header.fullmatch(header.strip()) if header else None
        name = self._name(match) if match else ""
        if match is None or (self._form.known_tools_only and not self._context.has_tool(name)):
            self._release()
            self._in_group = False
            self.state = self.start
            return True
        self._forget()
        self._properties = self._context.properties(name)
        self._begin_body()
        self.begin_call(name)
        self.state = self._in_body
        return True

    def _name(self, match: re.Match[str]) -> str:
        name = match["name"].strip()
        return name.replace("&quot;", '"').replace("&amp;", "&") if self._form.entities else name

    def _header(self, ends: MarkedText, tag: Tag) -> str | None:
        """What stands in a tag: None while incomplete, empty when it is not such a tag."""
        text, marker = ends.read(self)
        self._head.append(text)
        self._head_length += len(text)
        if marker is None or self._head_length > _LONGEST_HEADER:
            self.at -= len(marker or "")
            return "" if self._head_length > _LONGEST_HEADER else None
        header = "".join(self._head)
        if marker in tag.end:
            self._head.append(marker)
        else:
            self.at -= len(marker)
            if marker not in tag.before:
                return ""
        return header

    def _in_body(self) -> bool:
        """In a call, between parameters."""
        text, marker = self._body.read(self, in_markup=True)
        self.content(text)
        if marker is None:
            return False
        self.drop_space()
        form = self._form
        if marker == form.parameter.open:
            self._held = [marker]
            self.state = self._in_parameter_tag
        elif marker in form.call_end:
            self._end()
        elif marker not in form.parameter_end:
            self.at -= len(marker)
            self._end()
        return True

    def _in_parameter_tag(self) -> bool:
        header = self._header(self._parameter_head, self._form.parameter)
        if header is None:
            return False
        match = self._parameter_header.fullmatch(header.strip()) if header else None
        if match is None:
            self._release()
            self.state = self._in_body
            return True
        self._parameter = self._name(match)
        stated = match.groupdict()
        self._said = stated.get("string")
        self._schema = _decided(self._properties.get(self._parameter), stated.get("type"))
        self.state = self._before_value if self._form.value else self._at_value
        return True

    def _before_value(self) -> bool:
        text, marker = self._value_head.read(self)
        self._head.append(text)
        if marker is None:
            return False
        if marker != self._form.value or text.strip():
            self.at -= len(marker)
            if marker == self._form.value:
                self._head.append(self.take(self.at + len(marker)))
            self._release()
            self.state = self._in_body
            return True
        self.state = self._at_value
        return True

    def _at_value(self) -> bool:
        """At the first character of a value."""
        if self._form.trim == "space":
            self.skip_space()
            if self.at == len(self.buffer):
                return False
        elif self._form.trim == "newline" and self.buffer[self.at] == "\n":
            self.at += 1
        self._forget()
        self._value = []
        self._tail = ""
        self._unfinished = True
        if self._is_text():
            self._key(self._parameter)
            self.arguments('"')
            self.state = self._in_text
        else:
            self.state = self._in_value
        return True

    def _is_text(self) -> bool:
        if self._said is not None:
            return self._said in ("true", "string")
        return schema_types(self._schema) == {"string"}

    def _key(self, name: str) -> None:
        if self._wrapped is not None:
            wrapped, self._wrapped = self._wrapped, None
            self._member(*wrapped)
        self.arguments(f'{", " if self._count else "{"}"{json_string(name)}": ')
        self._count += 1

    def _member(self, name: str, value: str) -> None:
        self._key(name)
        self.arguments(value)

    def _in_text(self) -> bool:
        """In a value that is a string."""
        text, marker = self._value_end.read(self, in_markup=True)
        text = self._tail + text
        kept = text
        if self._form.trim == "newline":
            kept = text.removesuffix("\n")
        elif self._form.trim == "space":
            kept = text.rstrip()
        self._tail = text[len(kept) :]
        self.arguments(json_string(kept))
        if marker is None:
            return False
        self.arguments('"')
        return self._value_ends(marker)

    def _in_value(self) -> bool:
        """In a value whose type is known when it is whole."""
        text, marker = self._value_end.read(self, in_markup=True)
        self._value.append(text)
        if marker is None:
            return False
        text = "".join(self._value)
        if self._form.trim == "newline":
            text = text.removesuffix("\n")
        elif self._form.trim == "space":
            text = text.rstrip()
        value = to_json(self._typed(text))
        if self._parameter in self._form.unwrap and self._parameter not in self._properties and not self._count:
            if self._wrapped is not None:
                self._key(self._parameter)
                self.arguments(value)
            else:
                self._wrapped = (self._parameter, value)
        else:
            self._member(self._parameter, value)
        return self._value_ends(marker)

    def _typed(self, text: str) -> Any:
        return typed_value(text, self._schema if self._said is None else _JSON)

    def _value_ends(self, marker: str) -> bool:
        self._value = []
        self._unfinished = False
        if marker in self._form.implicit_end:
            self.at -= len(marker)
        self.state = self._in_body
        return True

    def _end(self) -> None:
        """The call is complete."""
        self._end_arguments()
        self.end_call()
        self._in_group = bool(self._form.open)
        self.state = self.start

    def _end_arguments(self) -> None:
        if self._wrapped is not None:
            name, value = self._wrapped
            self._wrapped = None
            if value.startswith("{") and self._known(value):
                self.arguments(value)
                return
            self._member(name, value)
        self.arguments("}" if self._count else "{}")

    def _known(self, value: str) -> bool:
        inner = typed_value(value, {"type": "object"})
        return isinstance(inner, dict) and (not self._properties or inner.keys() <= self._properties.keys())

    def _release(self) -> None:
        held = "".join([*self._held, *self._head])
        self._forget()
        self.content(held)

    def _forget(self) -> None:
        self._held, self._head, self._head_length = [], [], 0

    def close(self) -> None:
        if self.open_call is None:
            self._release()
        elif not self._unfinished:
            self._end_arguments()
        elif self._value:
            self._member(self._parameter, "".join(self._value))
        elif self._wrapped is not None:
            self._member(*self._wrapped)


def _decided(schema: Any, stated: str | None) -> Any:
    """The schema of a parameter whose tag states a type."""
    if not stated or stated == "any":
        return schema
    only = {"type": stated}
    if schema is None:
        return only
    types = schema_types(schema)
    return only if len(types) > 1 and schema_types(only) <= types else schema
