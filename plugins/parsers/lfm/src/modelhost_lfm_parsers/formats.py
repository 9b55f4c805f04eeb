"""The format that LFM models write."""

from __future__ import annotations

from modelhost.api.parsing import PythonicCalls

lfm2 = PythonicCalls(open=("<|tool_call_start|>",), close=("<|tool_call_end|>",), strip=True)
"""`<|tool_call_start|>[NAME(KEY=VALUE, ...), ...]<|tool_call_end|>`"""
