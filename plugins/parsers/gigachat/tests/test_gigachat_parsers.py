"""The conformance kit on the formats of this package."""

from __future__ import annotations

from modelhost_gigachat_parsers.formats import gigachat3

from modelhost.testing.parser import Sample, check_parser


def test_gigachat3() -> None:
    call = '<|message_sep|>\n\nfunction call<|role_sep|>\n{"name": "f", "arguments": {"a": "x\\"}", "b": [1]}}'
    check_parser(
        gigachat3,
        [
            Sample(f"Hi {call}{call} bye"),
            Sample('<|function_call|>{"name": "f", "arguments": {}}</s>'),
            Sample("a function call b"),
        ],
    )
