"""The conformance kit on the formats of this package."""

from __future__ import annotations

from modelhost_deepseek_parsers.formats import (
    deepseek_r1_reasoning,
    deepseek_v3,
    deepseek_v4,
    deepseek_v4_reasoning,
    deepseek_v31,
    deepseek_v32,
)

from modelhost.testing.parser import Sample, check_parser

ARGUMENTS = '{"a": "x\\"}", "b": [1, {}]}'


def test_deepseek_v3() -> None:
    call = f"<｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{ARGUMENTS}\n```<｜tool▁call▁end｜>"
    text = f"Hi <｜tool▁calls▁begin｜>{call}\n{call}<｜tool▁calls▁end｜>bye"
    check_parser(deepseek_v3, [Sample(text, ignored=(">function<｜tool▁sep｜>",))])


def test_deepseek_v31() -> None:
    call = f"<｜tool▁call▁begin｜>f<｜tool▁sep｜>{ARGUMENTS}<｜tool▁call▁end｜>"
    check_parser(deepseek_v31, [Sample(f"Hi <｜tool▁calls▁begin｜>{call}{call}<｜tool▁calls▁end｜>bye")])


def test_dsml() -> None:
    call = (
        '<｜DSML｜invoke name="f">\n<｜DSML｜parameter name="a" string="true">x</｜DSML｜parameter>\n'
        '<｜DSML｜parameter name="b" string="false">[1]</｜DSML｜parameter>\n</｜DSML｜invoke>\n'
    )
    check_parser(deepseek_v32, [Sample(f"Hi\n<｜DSML｜function_calls>\n{call}{call}</｜DSML｜function_calls>")])
    check_parser(deepseek_v4, [Sample(f"<｜DSML｜tool_calls>\n{call}</｜DSML｜tool_calls>\nbye")])


def test_reasoning() -> None:
    check_parser(deepseek_r1_reasoning, [Sample("<think>a</think>b"), Sample("a</think>b")])
    check_parser(deepseek_v4_reasoning, [Sample("<think>a </think>b"), Sample("b")])
