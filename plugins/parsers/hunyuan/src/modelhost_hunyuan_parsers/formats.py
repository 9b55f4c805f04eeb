"""The formats that Hunyuan models write."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from modelhost.api.parsing import (
    ByRequest,
    CallSyntax,
    JsonCalls,
    Parser,
    ParserContext,
    ReasoningTags,
    Switch,
    Tag,
    TaggedCalls,
)

hunyuan_a13b = JsonCalls(
    open=("<tool_calls>",),
    close=("</tool_calls>",),
    array=True,
    syntax=CallSyntax(
        '{"name": "NAME", "arguments": ARGUMENTS}', begin="<tool_calls>[", separator=", ", end="]</tool_calls>"
    ),
)
"""`<tool_calls>[{"name": ..., "arguments": {...}}, ...]</tool_calls>`"""

_THINK_START = ("<think>\n", "<think>")
_THINK_END = ("\n</think>\n<answer>\n", "\n</think>\n", "\n</think>", "</think>")
_ANSWER_END = ("\n</answer>", "</answer>")

_thinking = ReasoningTags(start=_THINK_START, end=_THINK_END, begins="content", around_answer=_ANSWER_END)
_after_thinking = ReasoningTags(
    start=_THINK_START,
    end=_THINK_END,
    begins="content",
    around_answer=("<answer>\n", *_ANSWER_END),
)


def hunyuan_a13b_reasoning(context: ParserContext) -> Parser:
    """`<think>...</think>`, then `<answer>...</answer>`. The prompt holds empty reasoning where it is switched off."""
    return (_after_thinking if context.prompt.rstrip().endswith("</think>") else _thinking)(context)


def _suffix(context: ParserContext) -> str:
    """What the names of all tags end with. It differs between releases, as in `<tool_calls:opensource>`."""
    prompted = re.findall(r"<[^<>\s]*?(:[\w-]+)[|｜]?>", context.prompt)[-1:]
    if context.vocabulary is None:
        return ""
    known = context.vocabulary.token_id
    return next((suffix for suffix in ("", ":opensource", *prompted) if known(f"<tool_calls{suffix}>") is not None), "")


def _tagged(suffix: str, *, name_end: str, between: str) -> TaggedCalls:
    """Calls in tags whose names end with `suffix`; a grammar of their arguments is known for tags without one."""
    call, key, value = f"tool_call{suffix}", f"arg_key{suffix}", f"arg_value{suffix}"
    group = f"tool_calls{suffix}"
    return TaggedCalls(
        open=(f"<{group}>",),
        close=(f"</{group}>",),
        call=Tag(f"<{call}>", end=(name_end,), before=(f"<{key}>", f"</{call}>")),
        call_end=(f"</{call}>",),
        parameter=Tag(f"<{key}>", end=(f"</{key}>",)),
        value=f"<{value}>",
        parameter_end=(f"</{value}>",),
        syntax=CallSyntax(
            f"<{call}>NAME{name_end}{between}ARGUMENTS{between}</{call}>{between}",
            begin=f"<{group}>{between}",
            end=f"</{group}>",
            arguments=None if suffix else "glm_xml",
        ),
    )


def _hy_v3(context: ParserContext) -> TaggedCalls:
    suffix = _suffix(context)
    return _tagged(suffix, name_end=f"<tool_sep{suffix}>", between="\n")


def _hy_v4(context: ParserContext) -> TaggedCalls:
    return _tagged(_suffix(context), name_end="\n", between="")


hy_v3 = ByRequest(_hy_v3)
"""`<tool_calls><tool_call>NAME<tool_sep>`, `<arg_key>KEY</arg_key><arg_value>VALUE</arg_value>` pairs, end tags"""

hy_v4 = ByRequest(_hy_v4)
"""As `hy_v3` without `<tool_sep>`"""


def reasoning_effort(options: Mapping[str, Any]) -> bool:
    """Hunyuan 3 reasons when it is given an effort other than `no_think`."""
    return options.get("reasoning_effort") not in (None, "no_think")


def some_effort(options: Mapping[str, Any]) -> bool | None:
    """Hunyuan 4 reasons unless its effort is `no_think`."""
    return False if options.get("reasoning_effort") == "no_think" else None


def _think(switch: Switch) -> ByRequest:
    def choose(context: ParserContext) -> ReasoningTags:
        suffix = _suffix(context)
        return ReasoningTags(start=(f"<think{suffix}>",), end=(f"</think{suffix}>",), switch=switch)

    return ByRequest(choose)


hy_v3_reasoning = _think(reasoning_effort)
"""`<think>...</think>`"""

hy_v4_reasoning = _think(some_effort)
"""`<think>...</think>`"""
