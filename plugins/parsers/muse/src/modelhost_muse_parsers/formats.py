"""The format that Muse models write."""

from __future__ import annotations

from modelhost.api.parsing import CallSyntax, Tag, TaggedCalls

from .messages import AddressedMessages

_atem = TaggedCalls(
    open=("<atem:function_calls>",),
    close=("</atem:function_calls>",),
    call=Tag("<atem:invoke name=", header=r'"(?P<name>[^"]+)"'),
    call_end=("</atem:invoke>",),
    parameter=Tag("<atem:parameter name=", header=r'"(?P<name>[^"]+)"'),
    parameter_end=("</atem:parameter>",),
)

muse = AddressedMessages(
    calls=_atem,
    syntax=CallSyntax(
        ' to=NAME<|message|><atem:function_calls>\n<atem:invoke name="NAME">\nARGUMENTS</atem:invoke>\n'
        "</atem:function_calls><|eot|>",
        arguments=None,
        single=True,
    ),
)
"""`<atem:invoke name="NAME"><atem:parameter name="KEY">VALUE</…></…>` in messages to tools; finds reasoning as well"""

muse_reasoning = AddressedMessages(calls=None)
"""As `muse` without calls: messages to tools are content"""
