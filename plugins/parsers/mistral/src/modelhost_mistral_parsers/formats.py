"""The formats that Mistral models write."""

from __future__ import annotations

import secrets
import string
from dataclasses import replace

from modelhost.api.parsing import (
    Adjustment,
    CallSyntax,
    Engine,
    Event,
    HeaderCalls,
    JsonCalls,
    MarkedText,
    Parser,
    ParserContext,
    ReasoningTags,
    ToolChoice,
    written_as,
)

_CALL = ("[TOOL_CALLS]",)

named_calls = HeaderCalls(call=_CALL, header=r'(?P<name>[^\s"\[\]{}]+)', arguments=("[ARGS]", "{"))
"""`[TOOL_CALLS]NAME[ARGS]{arguments}` for each call; `[ARGS]` may be missing"""

array_calls = JsonCalls(array=True, open=_CALL)
"""`[TOOL_CALLS][{"name": ..., "arguments": {...}}, ...]`, which older models write"""


_NAMED = CallSyntax("[TOOL_CALLS]NAME[ARGS]ARGUMENTS")
_ARRAY = CallSyntax('{"name": "NAME", "arguments": ARGUMENTS}', begin="[TOOL_CALLS][", separator=", ", end="]")


def new_call_id(index: int) -> str:
    """Mistral's chat templates take ids of nine letters and digits only."""
    return "".join(secrets.choice(string.ascii_letters + string.digits) for _ in range(9))


class MistralCalls(Engine):
    """Parser of both formats: what follows the first marker says which one it is."""

    @staticmethod
    def adjust_request(context: ParserContext, choice: ToolChoice) -> Adjustment:
        """The vocabulary says which format the model writes."""
        named = context.vocabulary is not None and context.vocabulary.token_id("[ARGS]") is not None
        return replace(written_as(_NAMED if named else _ARRAY, context, choice), new_call_id=new_call_id)

    def __init__(self, context: ParserContext) -> None:
        super().__init__()
        self._named = named_calls(context)
        self._array = array_calls(context)
        self._chosen: Parser = self._named
        self._marker = MarkedText(*_CALL)

    def start(self) -> bool:
        """Before the first marker, where the formats do not differ."""
        text, marker = self._marker.read(self)
        self._pass_to_both(text + (marker or ""))
        if marker is None:
            return False
        self.state = self._choose
        return True

    def _choose(self) -> bool:
        self._pass_to_both(self.skip_space())
        if self.at == len(self.buffer):
            return False
        if self.buffer[self.at] == "[":
            self._chosen = self._array
        self.state = self._pass
        return True

    def _pass(self) -> bool:
        self._report(self._chosen.feed(self.rest()))
        return False

    def _pass_to_both(self, text: str) -> None:
        self._report(self._named.feed(text))
        self._array.feed(text)

    def _report(self, events: list[Event]) -> None:
        for event in events:
            self.report(event)

    def close(self) -> None:
        self._report(self._chosen.finish())


mistral_reasoning = ReasoningTags(start=("[THINK]",), end=("[/THINK]",), begins="content")
