"""The formats that OLMo models write."""

from __future__ import annotations

from modelhost.api.parsing import PythonicCalls, ReasoningTags

olmo3 = PythonicCalls(open=("<function_calls>",), close=("</function_calls>",), bracketed=False)
"""`<function_calls>` and on each line `NAME(KEY=VALUE, ...)`"""

olmo3_reasoning = ReasoningTags(start=("<think>",), end=("</think>",), also_ended_by=("<function_calls>",))
