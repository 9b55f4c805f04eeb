"""The formats that K2 Horizon models write."""

from __future__ import annotations

from modelhost.api.parsing import (
    Block,
    Blocks,
    ByRequest,
    CallSyntax,
    JsonCalls,
    ParserContext,
    ParserFactory,
    ReasoningTags,
    Tag,
    TaggedCalls,
)

_GROUP, _GROUP_END = "<ifm|tool_calls>", "</ifm|tool_calls>"
_CALL, _CALL_END = "<ifm|tool_call>", "</ifm|tool_call>"

tagged_calls = TaggedCalls(
    open=(_GROUP,),
    close=(_GROUP_END,),
    call=Tag(_CALL, end=("\n",), before=("<ifm|arg_key>", _CALL_END)),
    call_end=(_CALL_END,),
    parameter=Tag(
        "<ifm|arg_key>",
        end=("<ifm|arg_value>",),
        header=r"(?P<name>[^<>]+)</ifm\|arg_key>\s*(?:<ifm\|arg_type>\s*(?P<type>\w+)[^<>]*</ifm\|arg_type>)?",
    ),
    parameter_end=("</ifm|arg_value>",),
    known_tools_only=True,
    syntax=CallSyntax(f"{_CALL}NAME\nARGUMENTS{_CALL_END}\n", begin=f"{_GROUP}\n", end=_GROUP_END, arguments=None),
)

json_calls = Blocks(
    blocks=(Block(open=(_GROUP,), close=(_GROUP_END,), holds=JsonCalls(open=(_CALL,), close=(_CALL_END,))),),
    handles_reasoning=False,
    syntax=CallSyntax(
        f'{_CALL}{{"name": "NAME", "arguments": ARGUMENTS}}{_CALL_END}\n', begin=f"{_GROUP}\n", end=_GROUP_END
    ),
)


def _by_option(context: ParserContext) -> ParserFactory:
    return json_calls if context.template_options.get("tool_call_format") == "json" else tagged_calls


k2_horizon = ByRequest(_by_option)
"""`<ifm|tool_call>NAME`, for each parameter `<ifm|arg_key>KEY</ifm|arg_key><ifm|arg_value>VALUE</ifm|arg_value>`, and
`<ifm|arg_type>` between where the template's `tool_call_format` is `xml_typed`; a JSON object where it is `json`"""

_THINK = {"medium": "think_fast", "low": "think_faster"}


def _by_effort(context: ParserContext) -> ReasoningTags:
    tag = _THINK.get(context.template_options.get("reasoning_effort", "high"), "think")
    return ReasoningTags(start=(f"<ifm|{tag}>",), end=(f"</ifm|{tag}>",), also_ended_by=(_GROUP,))


k2_horizon_reasoning = ByRequest(_by_effort)
"""`<ifm|think>...</ifm|think>`; with less `reasoning_effort` the tag is `think_fast` or `think_faster`"""
