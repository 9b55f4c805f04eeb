"""Calls written as JSON objects or arrays of objects, after a marker or bare."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Literal

from .call_syntax import CallSyntax
from .context import ParserContext
from .engine import MarkedText, ToolEngine
from .json_scanner import JsonScanner
from .markers import Markers


@dataclass(frozen=True, kw_only=True)
class JsonCalls:
    """Format of calls that are JSON objects holding a name and arguments.

    Arguments are an object, a string that holds the JSON text of one, or null. Other members are not reported.

    Attributes:
        open: markers that a block of calls begins with. Several of them may follow each other.
        close: markers that end a block; they may be missing in the output.
        array: a block holds an array of call objects rather than call objects.
        bare: where an object or array counts without a marker: anywhere, or at the start of the output only.
        name, arguments, id: keys of a call object; of several, the first one present counts.
        name_is_key: a call object is `{"NAME": {arguments}}`.
        separators: characters besides white space that stand between bare objects.
        strip: see ToolEngine.
        other_keys: keys that a call object may hold besides these. A bare object with another key is not a call, and
            neither is one without arguments.
        syntax: a call as the models write it, for a forced tool choice.
    """

    open: tuple[str, ...] = ()
    close: tuple[str, ...] = ()
    array: bool = False
    bare: Literal["anywhere", "start"] | None = None
    name: tuple[str, ...] = ("name",)
    arguments: tuple[str, ...] = ("arguments",)
    id: tuple[str, ...] = ()
    name_is_key: bool = False
    other_keys: tuple[str, ...] = ("type", "function", "description")
    separators: str = ""
    strip: bool = False
    syntax: CallSyntax | None = None

    def __call__(self, context: ParserContext) -> JsonCallsParser:
        return JsonCallsParser(self)


class JsonCallsParser(ToolEngine):
    """Parser of the format `JsonCalls`."""

    def __init__(self, form: JsonCalls) -> None:
        super().__init__(strip=form.strip, separators=form.separators)
        self._form = form
        self._first = "[" if form.array else "{"
        self._outer = MarkedText(*form.open, *([self._first] if form.bare else []))
        self._keys = {*form.name, *form.arguments, *form.id, *form.other_keys}
        self._ends = Markers([*form.open, *form.close])
        self._held: list[str] = []  # text of what may still turn out not to be a call
        self._in_array = False
        self._called = False  # the block has had a call
        self._marked = False  # inside a block that began with a marker
        self._reset()

    def start(self) -> bool:
        """At the start of the output, where some formats need no marker."""
        if self._form.bare == "start":
            space = self.skip_space()
            self.content(space)
            if self.at == len(self.buffer):
                return False
            if self.buffer[self.at] != self._first:
                self._outer = MarkedText(*self._form.open)
        self.state = self._text
        return True

    def _text(self) -> bool:
        text, marker = self._outer.read(self)
        self.content(text)
        if marker is None:
            return False
        if self._form.bare == "start":
            self._outer = MarkedText(*self._form.open)
        if marker == self._first:
            self.at -= 1
            self._marked = False
        else:
            self._held = [marker]
            self._marked = True
            self._called = False
        self.state = self._block
        return True

    def _block(self) -> bool:
        """In a block: before the array or the first object, between objects, or after the last."""
        space = self.skip_space()
        if self._held:
            self._held.append(space)
        elif not self._in_array:
            self.content(space)
        if self.at == len(self.buffer):
            return False
        if self._marked:
            decided, marker = self._ends.at(self.buffer, self.at, self.final and bool(self._held))
            if not decided:
                if self.final:
                    self.rest()  # an unfinished marker
                return False
            if marker is not None:
                return self._block_marker(marker)
        return self._block_character(self.buffer[self.at])

    def _block_marker(self, marker: str) -> bool:
        self.at += len(marker)
        self._in_array = False
        if marker in self._form.open:
            self._held.append(marker)
        elif self._held:
            self._fail(marker)
        else:
            self.drop_space()
            self.state = self._text
        return True

    def _block_character(self, character: str) -> bool:
        if self._form.array and not self._in_array:
            if character == "[" and (self._held or not self._marked):
                self._in_array = True
                self._held.append(self.take(self.at + 1))
                return True
        elif character == "{":
            self._reset()
            self._held.append(self.take(self.at + 1))
            self.state = self._key
            return True
        elif self._in_array and character == ",":
            self.at += 1
            return True
        elif self._in_array and character == "]":
            return self._array_end()
        return self._stray()

    def _array_end(self) -> bool:
        self._in_array = False
        if self._held:
            self._fail(self.take(self.at + 1))
            return True
        self.at += 1
        if not self._marked:
            self.state = self._text
        return True

    def _stray(self) -> bool:
        """Text in a block that is not a call."""
        self._in_array = False
        if self._held or not self._marked:
            self._fail("")
            return True
        end, marker = self._ends.find(self.buffer, self.at, self.final)
        brace = self.buffer.find("{", self.at, end) if not self._form.array else -1
        end = brace if brace >= 0 else end
        text = self.take(end)
        self.content(text)
        return bool(text) or marker is not None

    def _fail(self, text: str) -> None:
        """What is held is not a call."""
        held, self._held = "".join([*self._held, text]), []
        self.content(held)
        self._in_array = False
        self.state = self._block if self._marked and self._called else self._text

    # Within an object

    def _reset(self) -> None:
        self._scanner = JsonScanner()
        self._piece: list[str] = []
        self._key_name = ""
        self._name: str | None = None
        self._id: str | None = None
        self._early: str | None = None
        self._unknown_keys = False
        self._has_arguments = False
        self._after_comma = False

    def _hold(self, text: str) -> str:
        if self._held:
            self._held.append(text)
        return text

    def _key(self) -> bool:
        """Before or in a key."""
        if not self._piece:
            self._hold(self.skip_space())
            if self.at == len(self.buffer):
                return False
            character = self.buffer[self.at]
            if character == "}" and not self._after_comma:
                return self._object_end()
            if character != '"':
                return self._broken()
        text = self._scan()
        self._piece.append(text)
        if not self._scanner.valid:
            return self._broken()
        if self._scanner.done:
            self._key_name = json.loads("".join(self._piece))
            self._piece = []
            self.state = self._colon
        return self.at < len(self.buffer)

    def _colon(self) -> bool:
        self._hold(self.skip_space())
        if self.at == len(self.buffer):
            return False
        if self.buffer[self.at] != ":":
            return self._broken()
        self._unknown_keys = self._unknown_keys or self._key_name not in self._keys
        if self._form.bare and not self._marked and self._key_name not in self._keys:
            self._held, held = [], "".join(self._held)
            self.content(held)
            self._scanner = JsonScanner.after_key()
            self.state = self._passed
            return True
        self._hold(self.take(self.at + 1))
        self.state = self._value
        return True

    def _passed(self) -> bool:
        """In an object that is not a call: none of the objects in it is one either."""
        self.content(self._scan())
        if self._scanner.done or not self._scanner.valid:
            self._in_array = False
            self.state = self._text
        return self.at < len(self.buffer)

    def _value(self) -> bool:
        """Before a value: what becomes of it depends on the key."""
        self._hold(self.skip_space())
        if self.at == len(self.buffer):
            return False
        self._scanner = JsonScanner()
        self._piece = []
        form = self._form
        if form.name_is_key:
            self._name = self._key_name
            self._has_arguments = False
        is_arguments = form.name_is_key or self._key_name in form.arguments
        if is_arguments and not self._has_arguments:
            self._has_arguments = True
            first = self.buffer[self.at]
            if first != "{" and (form.name_is_key or (form.bare and not self._marked) or first not in '"n'):
                return self._broken()
            if self._name and first == "{":
                self._begin()
                self.state = self._streamed
            else:
                self.state = self._kept
        else:
            self.state = self._kept
        return True

    def _begin(self) -> None:
        self._held = []
        self._called = True
        self.begin_call(self._name or "", self._id)

    def _streamed(self) -> bool:
        """In arguments that are passed on as they arrive."""
        if self._scanner.valid or not self._marked:
            self.arguments(self.take(self._scanner.scan(self.buffer, self.at)))
        else:
            # No longer JSON: the end is the bracket that closes it or a marker, whichever is first.
            end, marker = self._ends.find(self.buffer, self.at, self.final)
            self.arguments(self.take(self._scanner.scan(self.buffer, self.at, end)))
            if not self._scanner.done and marker is not None:
                self.end_call()
                self.state = self._block
                return True
            if not self._scanner.done:
                return False
        if self._scanner.done:
            self.state = self._next
            if not self._scanner.valid:
                self.end_call()
        return self.at < len(self.buffer)

    def _kept(self) -> bool:
        """In a value that is needed whole or not at all."""
        text = self._scan()
        self._piece.append(text)
        if not self._scanner.valid:
            return self._broken()
        if not self._scanner.done:
            return False
        self._keep("".join(self._piece))
        self._piece = []
        return self.state != self._kept

    def _keep(self, text: str) -> None:
        form = self._form
        self.state = self._next
        if self._key_name in form.arguments and self._early is None:
            self._early = _object_text(text)
            if self._early is None:
                self._broken()
        elif self._key_name in form.name and self._name is None:
            self._name = _string(text)
            if not self._name:
                self._broken()
        elif self._key_name in form.id and self._id is None:
            self._id = _string(text) or text

    def _next(self) -> bool:
        """After a value."""
        self._hold(self.skip_space())
        if self.at == len(self.buffer):
            return False
        character = self.buffer[self.at]
        if character == "}":
            return self._object_end()
        if character != ",":
            return self._broken()
        comma = self.take(self.at + 1)
        if self._form.name_is_key:
            self.end_call()
            self._held = [comma]
        else:
            self._hold(comma)
        self._scanner = JsonScanner()
        self._piece = []
        self._after_comma = True
        self.state = self._key
        return True

    def _object_end(self) -> bool:
        if self.open_call is None and self._held:
            complete = self._name and (self._has_arguments or (self._marked and not self._unknown_keys))
            if not complete:
                return self._broken()
            self._end_early()
        self.at += 1
        self.end_call()
        self.state = self._block if self._marked or self._in_array else self._text
        return True

    def _end_early(self) -> None:
        self._begin()
        self.arguments(self._early or "{}")
        self.end_call()
        self._early = None

    def _broken(self) -> bool:
        """The object is not, or no longer, JSON of a call."""
        self._piece = []
        if self._held:
            self._fail("")
            return True
        self.end_call()
        self._in_array = False
        self.state = self._block if self._marked else self._text
        return True

    def _scan(self) -> str:
        return self._hold(self.take(self._scanner.scan(self.buffer, self.at)))

    def close(self) -> None:
        if self._held:
            self.content("".join(self._held))
            self._held = []


def _string(text: str) -> str | None:
    """The value of JSON text that is a string."""
    return str(json.loads(text)) if text.startswith('"') else None


def _object_text(text: str) -> str | None:
    """Arguments as JSON text: models also write them as a string that holds the text, or as null. None if neither."""
    if text == "null":
        return "{}"
    inner = _string(text)
    if inner is None:
        return text if text.startswith("{") else None
    if not inner.lstrip().startswith("{"):
        return None
    scanner = JsonScanner()
    end = scanner.scan(inner, len(inner) - len(inner.lstrip()))
    return inner if scanner.done and scanner.valid and not inner[end:].strip() else None
