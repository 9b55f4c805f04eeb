"""The formats that Gemma models write."""

from __future__ import annotations

from modelhost.api.parsing import ReasoningTags

from .calls import GemmaCalls

functiongemma = GemmaCalls(
    open="<start_function_call>",
    close="<end_function_call>",
    quote="<escape>",
    json_without_schema=True,
)
"""`<start_function_call>call:NAME{KEY:<escape>VALUE<escape>,...}<end_function_call>`"""

gemma4 = GemmaCalls(open="<|tool_call>", close="<tool_call|>", quote='<|"|>')
"""`<|tool_call>call:NAME{KEY:<|"|>TEXT<|"|>,KEY:NUMBER,KEY:{...},KEY:[...]}<tool_call|>`"""

gemma4_reasoning = ReasoningTags(
    start=("<|channel>thought\n", "<|channel>"),
    end=("<channel|>",),
    begins="content",
    also_ended_by=("<|tool_call>",),
    drop_stray=True,
    strip_reasoning="space",
)
"""`<|channel>thought`, a newline, the reasoning, `<channel|>`"""
