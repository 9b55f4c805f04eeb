"""The formats that MiniMax models write."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from modelhost.api.parsing import CallSyntax, Content, Event, ParserContext, ReasoningTags, Tag, TaggedCalls

from .elements import ElementCalls

minimax_m2 = TaggedCalls(
    open=("<minimax:tool_call>",),
    close=("</minimax:tool_call>",),
    call=Tag("<invoke name=", header=r"""["']?(?P<name>[^"'<>]+)["']?"""),
    call_end=("</invoke>",),
    parameter=Tag("<parameter name=", header=r"""["']?(?P<name>[^"'<>]+)["']?"""),
    parameter_end=("</parameter>",),
    known_tools_only=True,
    strip=True,
    syntax=CallSyntax(
        '<invoke name="NAME">\nARGUMENTS\n</invoke>\n',
        begin="<minimax:tool_call>\n",
        end="</minimax:tool_call>",
        arguments="minimax_xml",
    ),
)
"""`<minimax:tool_call><invoke name="NAME"><parameter name="KEY">VALUE</parameter></invoke></minimax:tool_call>`"""

minimax_m3 = ElementCalls(marker="]<]minimax[>[", group="tool_call")
"""`<tool_call><invoke name="NAME"><KEY>VALUE</KEY></invoke></tool_call>`, each tag after the marker"""

minimax_m2_reasoning = ReasoningTags(
    start=("<think>",),
    end=("</think>",),
    also_ended_by=("<minimax:tool_call>",),
    drop_stray=True,
    strip_reasoning="space",
)


def thinking_enabled(options: Mapping[str, Any]) -> bool | None:
    """MiniMax M3's chat templates begin with reasoning when `thinking_mode` is "enabled"."""
    return True if options.get("thinking_mode") == "enabled" else None


minimax_m3_reasoning = ReasoningTags(
    start=("<mm:think>",), end=("</mm:think>",), begins="content", switch=thinking_enabled
)


class AppendThink:
    """All of the output is content, with the start marker of the reasoning that the prompt holds put before it."""

    def __init__(self, context: ParserContext) -> None:
        self._due = not context.prompt.rstrip().endswith("</think>")

    def feed(self, text: str, token_ids: Sequence[int] = ()) -> list[Event]:
        return self._begun(text) if text else []

    def finish(self) -> list[Event]:
        return self._begun("")

    def _begun(self, text: str) -> list[Event]:
        text = "<think>" + text if self._due else text
        self._due = False
        return [Content(text)] if text else []


minimax_m2_append_think = AppendThink
