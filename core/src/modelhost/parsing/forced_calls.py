"""Output that a grammar has forced to be calls in plain JSON."""

from __future__ import annotations

from .context import ParserContext
from .engine import ToolEngine
from .json_calls import JsonCalls

required_calls = JsonCalls(array=True, bare="start", arguments=("parameters", "arguments"))
"""For `tool_choice="required"`: the output is an array of `{"name", "parameters"}`."""


class NamedCall:
    """For a named tool choice: the whole output is the arguments of that tool's call."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __call__(self, context: ParserContext) -> NamedCallParser:
        return NamedCallParser(self._name)


class NamedCallParser(ToolEngine):
    """Parser of the format `NamedCall`."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self._name = name

    def start(self) -> bool:
        if self.open_call is None:
            self.skip_space()
            if self.at == len(self.buffer):
                return False
            self.begin_call(self._name)
        self.arguments(self.rest())
        return False
