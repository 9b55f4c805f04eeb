"""Calls whose arguments are nested elements, each tag after a marker that no text holds."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from modelhost.api.parsing import (
    CallSyntax,
    MarkedText,
    ParserContext,
    ToolEngine,
    json_string,
    schema_types,
    to_json,
    typed_value,
)

_INVOKE = re.compile(r"""<invoke\s+name=\s*["']?(?P<name>[^"'<>]+)["']?\s*>""")
_OPENING = re.compile(r"<(?P<name>[^<>/][^<>]*)>")
_CLOSING = re.compile(r"</(?P<name>[^<>]+)>")
_LONGEST_TAG = 4096
_DEEPEST = 64


@dataclass(frozen=True, kw_only=True)
class ElementCalls:
    """Format of calls `<invoke name="NAME"><KEY>VALUE</KEY><KEY><KEY>VALUE</KEY></KEY></invoke>`.

    An object is an element for each key, a list is `item` elements, or one key several times. Text is typed by the
    schema of its parameter; a parameter that is a string is passed on as it arrives. Elements may be 64 deep.

    Attributes:
        marker: text before each tag.
        group: name of the element around a group of calls; calls count without it.
    """

    marker: str
    group: str

    @property
    def syntax(self) -> CallSyntax:
        """A call as the models write it."""
        mark = self.marker
        return CallSyntax(
            f'{mark}<invoke name="NAME">ARGUMENTS{mark}</invoke>\n',
            begin=f"{mark}<{self.group}>\n",
            end=f"{mark}</{self.group}>",
            arguments="minimax_m3_xml",
        )

    def __call__(self, context: ParserContext) -> ElementCallsParser:
        return ElementCallsParser(self, context)


@dataclass
class _Element:
    """An element that is not complete."""

    name: str
    schema: Any
    text: list[str] = field(default_factory=list)
    members: list[tuple[str, Any]] = field(default_factory=list)

    def member_schema(self, name: str) -> Any:
        if not isinstance(self.schema, Mapping):
            return None
        properties = self.schema.get("properties")
        if isinstance(properties, Mapping) and name in properties:
            return properties[name]
        return self.schema.get("items") if name == "item" else None

    def value(self) -> Any:
        text = "".join(self.text)
        if self.members:
            return self._container()
        types = schema_types(self.schema)
        if not text.strip() and "string" not in types:
            for kind, empty in (("object", {}), ("array", [])):
                if kind in types:
                    return empty
        return typed_value(text, self.schema)

    def _container(self) -> Any:
        is_object = isinstance(self.schema, Mapping) and "properties" in self.schema
        if not is_object and all(name == "item" for name, _ in self.members):
            return [value for _, value in self.members]
        return _joined(self.members)


def _joined(members: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Members by name; the values of a name that is there several times become a list."""
    values: dict[str, list[Any]] = {}
    for name, value in members:
        values.setdefault(name, []).append(value)
    return {name: found[0] if len(found) == 1 else found for name, found in values.items()}


class ElementCallsParser(ToolEngine):
    """Parser of the format `ElementCalls`."""

    def __init__(self, form: ElementCalls, context: ParserContext) -> None:
        super().__init__()
        self._form = form
        self._context = context
        self._marked = MarkedText(form.marker)
        self._tag_end = MarkedText(">", form.marker)
        self._held: list[str] = []  # markup of a group without a call so far
        self._in_group = False
        self._tag: list[str] = []
        self._tag_length = 0
        self._root = _Element("", None)
        self._stack: list[_Element] = []
        self._streamed = False  # the open parameter is a string whose text has been passed on
        self._written: list[str] = []  # the open parameter as the model wrote it
        self._count = 0

    def start(self) -> bool:
        """Outside tags."""
        in_markup = self.open_call is not None or (self._in_group and not self._held)
        text, marker = self._marked.read(self, in_markup=in_markup)
        self._text(text)
        if marker is None:
            return False
        self._tag = [marker]
        self._tag_length = 0
        self.state = self._in_tag
        return True

    def _text(self, text: str) -> None:
        if self._stack:
            self._written.append(text)
            if self._streamed:
                self.arguments(json_string(text))
            else:
                self._stack[-1].text.append(text)
        elif self._held:
            self._held.append(text)
            if text.strip():
                self._release()
        else:
            if text.strip() and self.open_call is None:
                self._in_group = False
            self.content(text)

    def _in_tag(self) -> bool:
        text, marker = self._tag_end.read(self)
        self._tag.append(text)
        self._tag_length += len(text)
        if marker is None and self._tag_length <= _LONGEST_TAG:
            return False
        self.state = self.start
        if marker != ">" or self._tag_length > _LONGEST_TAG:
            self.at -= len(marker or "")
            self._no_tag()
            return True
        self._tag.append(">")
        written = "".join(self._tag)
        self._tag = []
        if not self._known(written, written.removeprefix(self._form.marker)):
            self._tag = [written]
            self._no_tag()
        return True

    def _no_tag(self) -> None:
        text, self._tag = "".join(self._tag), []
        self._text(text)

    def _known(self, written: str, tag: str) -> bool:
        """Acts on a tag; False when it means nothing here."""
        group = self._form.group
        invoke = _INVOKE.fullmatch(tag)
        if invoke is not None:
            self._end()
            self._held = []
            self._begin(invoke["name"].strip())
        elif tag == "</invoke>" and self.open_call is not None:
            self._end()
            self._in_group = True
        elif tag == f"<{group}>" and not self._stack:
            self._end()
            self._held.append(written)
            self._in_group = True
        elif tag == f"</{group}>" and (self.open_call is not None or (self._in_group and not self._held)):
            self._end()
            self._in_group = False
            self.drop_space()
        else:
            return self.open_call is not None and self._element(written, tag)
        return True

    def _element(self, written: str, tag: str) -> bool:
        """A tag within a call."""
        closing = _CLOSING.fullmatch(tag)
        if closing is not None:
            if not self._stack or self._stack[-1].name != closing["name"]:
                return False
            self._written.append(written)
            self._close_element()
            return True
        opening = _OPENING.fullmatch(tag)
        if opening is None or self._streamed or len(self._stack) == _DEEPEST:
            return False
        name = opening["name"]
        parent = self._stack[-1] if self._stack else self._root
        if not self._stack:
            self.drop_space()
            self._written = []
        else:
            self._written.append(written)
            stray = "".join(parent.text)
            parent.text = []
            self.content(stray)
        element = _Element(name, parent.member_schema(name))
        self._streamed = not self._stack and element.schema is not None and schema_types(element.schema) == {"string"}
        self._stack.append(element)
        if self._streamed:
            self._key(name)
            self.arguments('"')
        return True

    def _close_element(self) -> None:
        element = self._stack.pop()
        if element.members:
            self.content("".join(element.text))
        if self._streamed:
            self.arguments('"')
            self._streamed = False
        elif self._stack:
            self._stack[-1].members.append((element.name, element.value()))
        elif self._may_repeat(element):
            self._root.members.append((element.name, element.value()))
        else:
            self._member(element.name, to_json(element.value()))

    def _may_repeat(self, element: _Element) -> bool:
        """Whether further elements of this name would make a list."""
        return element.schema is None or "array" in schema_types(element.schema)

    def _begin(self, name: str) -> None:
        self._root = _Element("", {"properties": self._context.properties(name)})
        self._count = 0
        self._in_group = False
        self.begin_call(name)

    def _key(self, name: str) -> None:
        self.arguments(f'{", " if self._count else "{"}"{json_string(name)}": ')
        self._count += 1

    def _member(self, name: str, value: str) -> None:
        self._key(name)
        self.arguments(value)

    def _end(self) -> None:
        """The call is complete; open elements end with it."""
        if self.open_call is None:
            return
        while self._stack:
            self._close_element()
        self._repeated()
        self.arguments("}" if self._count else "{}")
        self.end_call()

    def _repeated(self) -> None:
        for name, value in _joined(self._root.members).items():
            self._member(name, to_json(value))
        self._root.members = []

    def _closes_group(self, beginning: str) -> bool:
        return f"</{self._form.group}>".startswith(beginning)

    def _release(self) -> None:
        held = "".join(self._held)
        self._held = []
        self._in_group = False
        self.content(held)

    def close(self) -> None:
        if self.open_call is None:
            if not (self._in_group and not self._held and self._closes_group("".join(self._tag[1:]))):
                self._held += self._tag
            self._release()
            return
        if self._tag[1:]:
            self._written.append("".join(self._tag))
        if self._stack and not self._streamed:
            self._repeated()
            self._key(self._stack[0].name)
            self.arguments("".join(self._written))
        elif not self._stack:
            self._repeated()
