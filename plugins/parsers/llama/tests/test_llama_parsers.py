"""The conformance kit on the formats of this package."""

from __future__ import annotations

from modelhost_llama_parsers.formats import json_calls, llama4_pythonic, pythonic

from modelhost.testing.parser import Sample, check_parser


def test_json_calls() -> None:
    call = '{"name": "f", "parameters": {"a": "x\\"}", "b": [1, {}]}}'
    check_parser(
        json_calls, [Sample(f"Hi {call}; {call} bye"), Sample(f"<|python_tag|>{call}"), Sample('{"a": 1} {x}')]
    )


def test_pythonic() -> None:
    calls = "[f(a='x\\'\"', b=-1.5), g(), h(c=[True, None, {'k': (1, 2)}])]"
    check_parser(pythonic, [Sample(calls), Sample("[1] see f(x)")])
    check_parser(llama4_pythonic, [Sample(f"<|python_start|>{calls}<|python_end|> bye")])
