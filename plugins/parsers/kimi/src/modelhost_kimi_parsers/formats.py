"""The formats that Kimi models write."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from modelhost.api.parsing import (
    Block,
    Blocks,
    ByRequest,
    CallSyntax,
    HeaderCalls,
    ParserContext,
    ReasoningTags,
    Tag,
    TaggedCalls,
)

_SECTION = ("<|tool_calls_section_begin|>",)
_SECTION_END = ("<|tool_calls_section_end|>",)
_CALL = "<|tool_call_begin|>"
_ARGUMENTS = "<|tool_call_argument_begin|>"
_CALL_END = "<|tool_call_end|>"


def _kimi_k2(context: ParserContext) -> HeaderCalls:
    """Calls are counted over the whole conversation."""
    index = context.prompt.count(_CALL)
    return HeaderCalls(
        open=_SECTION,
        close=_SECTION_END,
        call=(_CALL,),
        header=r"(?P<id>(?:functions\.)?(?P<name>[^\s:]+):\d+)",
        arguments=(_ARGUMENTS,),
        end=(_CALL_END,),
        syntax=CallSyntax(
            f"{_CALL}functions.NAME:{index}{_ARGUMENTS}ARGUMENTS{_CALL_END}",
            begin=_SECTION[0],
            end=_SECTION_END[0],
            single=True,
        ),
    )


kimi_k2 = ByRequest(_kimi_k2)
"""`<|tool_call_begin|>functions.NAME:INDEX<|tool_call_argument_begin|>{arguments}<|tool_call_end|>`"""


def thinking_disabled(options: Mapping[str, Any]) -> bool | None:
    """Kimi's models reason unless `thinking` or `enable_thinking` is false."""
    return False if False in (options.get("thinking"), options.get("enable_thinking")) else None


kimi_k2_reasoning = ReasoningTags(
    start=("<think>",),
    end=("</think>",),
    also_ended_by=_SECTION,
    switch=thinking_disabled,
    drop_stray=True,
    strip_reasoning="space",
)


def _opened(name: str) -> str:
    return f"<|open|>{name}<|sep|>"


def _closed(name: str) -> str:
    return f"<|close|>{name}<|sep|>"


def _attributes(name: str, more: str = "") -> str:
    """Pattern of a tag's attributes in any order: the one called `name` is the name."""
    return rf'(?=.*\b{name}="[^"])(?:\s*(?:{name}="(?P<name>[^"]+)"{more}|(?!{name}=)\w+="[^"]*"))+'


_THINK, _RESPONSE = 0, 1
_k3_calls = TaggedCalls(
    call=Tag("<|open|>call ", end=("<|sep|>",), header=_attributes("tool")),
    call_end=(_closed("call"),),
    parameter=Tag("<|open|>argument ", end=("<|sep|>",), header=_attributes("key", r'|type="(?P<string>[^"]*)"')),
    parameter_end=(_closed("argument"),),
    entities=True,
)


def _k3_blocks(context: ParserContext, tools: Block) -> Blocks:
    """A prompt that ends within no element is followed by reasoning, or by the answer if reasoning is switched off."""
    prompt = context.prompt.rstrip()
    before = "" if prompt.endswith(_opened("response")) else _opened("response")
    begins = _RESPONSE if thinking_disabled(context.template_options) is False else _THINK
    syntax = CallSyntax(
        f'<|open|>call tool="NAME" index="1"<|sep|>ARGUMENTS{_closed("call")}',
        begin=f"{before}{_closed('response')}{_opened('tools')}",
        end=f"{_closed('tools')}{_closed('message')}",
        arguments="kimi_k3_xml",
        single=True,
    )
    return Blocks(
        blocks=(
            Block(open=(_opened("think"),), close=(_closed("think"),), holds="reasoning"),
            Block(open=(_opened("response"),), close=(_closed("response"),)),
            tools,
        ),
        begins=None if prompt.endswith(_closed("think")) else begins,
        drop=(_closed("message"),),
        syntax=syntax,
    )


def _k3(context: ParserContext) -> Blocks:
    return _k3_blocks(context, Block(open=(_opened("tools"),), close=(_closed("tools"),), holds=_k3_calls))


def _k3_without_calls(context: ParserContext) -> Blocks:
    return _k3_blocks(context, Block(open=(_opened("tools"),), holds="marked content"))


kimi_k3 = ByRequest(_k3, handles_reasoning=True)
"""`<|open|>call tool="NAME"<|sep|>` and `<|open|>argument key="KEY" type="TYPE"<|sep|>VALUE<|close|>argument<|sep|>`;
finds reasoning as well"""

kimi_k3_reasoning = ByRequest(_k3_without_calls)
"""`<|open|>think<|sep|>...<|close|>think<|sep|>`, then the answer in an element `response`"""
