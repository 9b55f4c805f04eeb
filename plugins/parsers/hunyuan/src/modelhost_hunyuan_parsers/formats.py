"""The formats that Hunyuan models write."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from modelhost.api.parsing import JsonCalls, Parser, ParserContext, ReasoningTags, Tag, TaggedCalls

hunyuan_a13b = JsonCalls(open=("<tool_calls>",), close=("</tool_calls>",), array=True)
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


def hy_v3(context: ParserContext) -> Parser:
    """`<tool_calls><tool_call>NAME<tool_sep>`, `<arg_key>KEY</arg_key><arg_value>VALUE</arg_value>` pairs, end tags."""
    suffix = _suffix(context)
    form = TaggedCalls(
        open=(f"<tool_calls{suffix}>",),
        close=(f"</tool_calls{suffix}>",),
        call=Tag(
            f"<tool_call{suffix}>",
            end=(f"<tool_sep{suffix}>",),
            before=(f"<arg_key{suffix}>", f"</tool_call{suffix}>"),
        ),
        call_end=(f"</tool_call{suffix}>",),
        parameter=Tag(f"<arg_key{suffix}>", end=(f"</arg_key{suffix}>",)),
        value=f"<arg_value{suffix}>",
        parameter_end=(f"</arg_value{suffix}>",),
    )
    return form(context)


def reasoning_effort(options: Mapping[str, Any]) -> bool:
    """Hunyuan 3 reasons when it is given an effort other than `no_think`."""
    return options.get("reasoning_effort") not in (None, "no_think")


def hy_v3_reasoning(context: ParserContext) -> Parser:
    """`<think>...</think>`"""
    suffix = _suffix(context)
    return ReasoningTags(start=(f"<think{suffix}>",), end=(f"</think{suffix}>",), switch=reasoning_effort)(context)
