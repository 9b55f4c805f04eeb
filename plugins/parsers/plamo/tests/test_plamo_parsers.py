"""The conformance kit on the formats of this package."""

from __future__ import annotations

from modelhost_plamo_parsers.formats import plamo3, plamo3_reasoning

from modelhost.api.parsing import Call, Parsed
from modelhost.testing.parser import Sample, check_parser

ARGUMENTS = '{"a": "x\\"}", "b": [1, {}]}'


def tagged(name: str, text: str) -> str:
    return f"<|plamo:begin_{name}:plamo|>{text}<|plamo:end_{name}:plamo|>"


REQUEST = tagged(
    "tool_request",
    tagged("tool_name", "f") + tagged("tool_arguments", f"<|plamo:constrain|>json<|plamo:msg|>{ARGUMENTS}"),
)
TEXT = "Hi " + tagged("tool_requests", REQUEST + REQUEST)


def test_plamo3() -> None:
    call = Call("f", ARGUMENTS)
    ignored = (r">json<", r"begin_tool_arguments:plamo\|><\|plamo:constrain\|>json<\|plamo:msg\|>")
    check_parser(plamo3, [Sample(TEXT, ignored=ignored, parsed=Parsed("", "Hi ", (call, call)))])


def test_reasoning() -> None:
    text = tagged("think", "a < b <|plamo:") + "c<|plamo:tag|>"
    check_parser(plamo3_reasoning, [Sample(text, parsed=Parsed("a < b <|plamo:", "c", ())), Sample("a" + TEXT)])
