"""The formats that Mistral models write."""

from __future__ import annotations

import secrets
import string
from dataclasses import replace

from modelhost.api.parsing import (
    Adjusted,
    Adjustment,
    CallSyntax,
    EitherCalls,
    HeaderCalls,
    JsonCalls,
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


def _adjust(context: ParserContext, choice: ToolChoice) -> Adjustment:
    """The vocabulary says which of the two the model writes."""
    named = context.vocabulary is not None and context.vocabulary.token_id("[ARGS]") is not None
    return replace(written_as(_NAMED if named else _ARRAY, context, choice), new_call_id=new_call_id)


mistral = Adjusted(EitherCalls(marker=_CALL, begins={"[": array_calls}, otherwise=named_calls), _adjust)
"""`[TOOL_CALLS]NAME[ARGS]{arguments}` for each call, or `[TOOL_CALLS][{"name": ..., "arguments": {...}}, ...]`"""

mistral_reasoning = ReasoningTags(start=("[THINK]",), end=("[/THINK]",), begins="content")
