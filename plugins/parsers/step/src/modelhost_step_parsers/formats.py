"""The formats that Step models write."""

from __future__ import annotations

from modelhost.api.parsing import CallSyntax, ReasoningTags, Tag, TaggedCalls

step3 = TaggedCalls(
    open=("<｜tool_calls_begin｜>",),
    close=("<｜tool_calls_end｜>",),
    call=Tag(
        "<｜tool_call_begin｜>",
        end=('">',),
        header=r'\w*\s*(?:<｜tool_sep｜>)?\s*<steptml:invoke name="(?P<name>[^"]+)',
    ),
    call_end=("<｜tool_call_end｜>",),
    parameter=Tag("<steptml:parameter name=", header=r'"(?P<name>[^"]+)"'),
    parameter_end=("</steptml:parameter>", "</steptml:invoke>"),
    trim="space",
    strip=True,
    syntax=CallSyntax(
        '<｜tool_call_begin｜>function<｜tool_sep｜><steptml:invoke name="NAME">ARGUMENTS</steptml:invoke>'
        "<｜tool_call_end｜>",
        begin="<｜tool_calls_begin｜>",
        end="<｜tool_calls_end｜>",
        arguments=None,
    ),
)
"""`<call begin>function<sep><steptml:invoke name="NAME"><steptml:parameter name="KEY">VALUE</…></…><call end>`"""


def _functions(*, strip: bool) -> TaggedCalls:
    return TaggedCalls(
        open=("<tool_call>",),
        close=("</tool_call>",),
        call=Tag("<function="),
        call_end=("</function>",),
        parameter=Tag("<parameter="),
        parameter_end=("</parameter>",),
        implicit_end=("<parameter=", "</function>"),
        trim="newline",
        strip=strip,
        syntax=CallSyntax("<tool_call>\n<function=NAME>\nARGUMENTS\n</function>\n</tool_call>", arguments="qwen_xml"),
    )


step3p5 = _functions(strip=False)
"""`<tool_call><function=NAME><parameter=KEY>VALUE</parameter></function></tool_call>`"""

step5 = _functions(strip=True)
"""As `step3p5`; white space between text and calls is not content"""

step3_reasoning = ReasoningTags(start=("<think>",), end=("</think>",), keep_start=True)
step3p5_reasoning = ReasoningTags(
    start=("<think>",), end=("</think>",), strip_reasoning="newline", strip_content="newline"
)
step5_reasoning = ReasoningTags(start=("<think>",), end=("</think>",))
