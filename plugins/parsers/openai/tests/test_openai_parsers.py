"""The conformance kit on the format of this package."""

from __future__ import annotations

from modelhost_openai_parsers.formats import harmony

from modelhost.testing.parser import Sample, check_parser

HEADER = r"<\|(start|channel)\|>.*?<\|message\|>"


def test_harmony() -> None:
    reasoning = "<|channel|>analysis<|message|>Hm.<|end|>"
    call = '<|start|>assistant<|channel|>commentary to=functions.f <|constrain|>json<|message|>{"a": 1}<|call|>'
    answer = "<|start|>assistant<|channel|>final<|message|>Hi<|return|>"
    check_parser(harmony, [Sample(reasoning + call + answer, ignored=(HEADER,)), Sample("plain")])
