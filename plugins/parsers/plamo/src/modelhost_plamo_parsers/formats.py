"""The formats that PLaMo models write."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from modelhost.api.parsing import CallSyntax, HeaderCalls, ReasoningTags


def _begin(name: str) -> str:
    return f"<|plamo:begin_{name}:plamo|>"


def _end(name: str) -> str:
    return f"<|plamo:end_{name}:plamo|>"


_ARGUMENTS = f"{_begin('tool_arguments')}<|plamo:constrain|>json<|plamo:msg|>"
_TURN_END = "<|plamo:tag|>"

plamo3 = HeaderCalls(
    open=(_begin("tool_requests"),),
    close=(_end("tool_requests") + _TURN_END, _end("tool_requests"), _TURN_END),
    call=(_begin("tool_request"),),
    header=r"<\|plamo:begin_tool_name:plamo\|>\s*(?P<name>\S+?)\s*<\|plamo:end_tool_name:plamo\|>",
    arguments=(_ARGUMENTS,),
    fence=(_end("tool_arguments"),),
    end=(_end("tool_request"),),
    syntax=CallSyntax(
        f"{_begin('tool_request')}{_begin('tool_name')}NAME{_end('tool_name')}{_ARGUMENTS}ARGUMENTS"
        f"{_end('tool_arguments')}{_end('tool_request')}",
        begin=_begin("tool_requests"),
        end=_end("tool_requests"),
    ),
)
"""`<begin tool name>NAME<end tool name>`, `<begin tool arguments>{arguments}<end tool arguments>`, in a request"""


def thinking_disabled(options: Mapping[str, Any]) -> bool | None:
    """The output begins with reasoning unless `enable_thinking` is false."""
    return False if options.get("enable_thinking") is False else None


plamo3_reasoning = ReasoningTags(
    start=(_begin("think"),),
    end=(_end("think"),),
    also_ended_by=(_begin("tool_requests"),),
    switch=thinking_disabled,
    drop_stray=True,
    around_answer=(_TURN_END,),
)
