"""The conformance kit on the formats of this package."""

from __future__ import annotations

from modelhost_step_parsers.formats import step3, step3_reasoning, step3p5, step3p5_reasoning, step5, step5_reasoning

from modelhost.testing.parser import Sample, check_parser


def test_step3() -> None:
    invoke = '<steptml:invoke name="f"><steptml:parameter name="a">x < y</steptml:parameter></steptml:invoke>'
    call = f"<｜tool_call_begin｜>function<｜tool_sep｜>{invoke}<｜tool_call_end｜>"
    text = f"Hi\n<｜tool_calls_begin｜>{call}\n{call}<｜tool_calls_end｜>bye"
    check_parser(step3, [Sample(text, ignored=(">function<｜tool_sep｜>",))])


def test_step3p5_and_step5() -> None:
    call = "<tool_call>\n<function=f>\n<parameter=a>\nx < y\n\n</parameter>\n</function>\n</tool_call>"
    for form in (step3p5, step5):
        check_parser(form, [Sample("Let me see.\n" + call + "\n" + call + "\nDone.")])


def test_reasoning() -> None:
    for form in (step3_reasoning, step3p5_reasoning, step5_reasoning):
        check_parser(form, [Sample("<think>a\n</think>\nb"), Sample("a</think>b"), Sample("no end")])
