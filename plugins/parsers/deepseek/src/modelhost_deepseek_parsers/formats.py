"""The formats that DeepSeek models write."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from modelhost.api.parsing import ArgumentStyle, CallSyntax, HeaderCalls, ReasoningTags, Tag, TaggedCalls

_SECTION = ("<｜tool▁calls▁begin｜>",)
_SECTION_END = ("<｜tool▁calls▁end｜>",)
_CALL = ("<｜tool▁call▁begin｜>",)
_CALL_END = ("<｜tool▁call▁end｜>",)

deepseek_v3 = HeaderCalls(
    open=_SECTION,
    close=_SECTION_END,
    call=_CALL,
    header=r"(?:[^\n]*?<｜tool▁sep｜>)?(?P<name>\S+)",
    arguments=("\n```json",),
    fence=("\n```", "```"),
    end=_CALL_END,
    syntax=CallSyntax(
        f"{_CALL[0]}function<｜tool▁sep｜>NAME\n```json\nARGUMENTS\n```{_CALL_END[0]}",
        begin=_SECTION[0],
        separator="\n",
        end=_SECTION_END[0],
    ),
)
"""`<call begin>function<sep>NAME`, a code block with the arguments, `<call end>`"""

deepseek_v31 = HeaderCalls(
    open=_SECTION,
    close=_SECTION_END,
    call=_CALL,
    arguments=("<｜tool▁sep｜>",),
    end=_CALL_END,
    syntax=CallSyntax(f"{_CALL[0]}NAME<｜tool▁sep｜>ARGUMENTS{_CALL_END[0]}", begin=_SECTION[0], end=_SECTION_END[0]),
)
"""`<call begin>NAME<sep>{arguments}<call end>`"""


def _dsml(wrapper: str, style: ArgumentStyle = "deepseek_xml", space: str = "") -> TaggedCalls:
    mark = f"｜DSML｜{space}"
    return TaggedCalls(
        open=(f"<{mark}{wrapper}>",),
        close=(f"</{mark}{wrapper}>",),
        call=Tag(f"<{mark}invoke name=", header=r'"(?P<name>[^"]+)"'),
        call_end=(f"</{mark}invoke>",),
        parameter=Tag(f"<{mark}parameter name=", header=r'"(?P<name>[^"]+)"(?:\s+string="(?P<string>true|false)")?'),
        parameter_end=(f"</{mark}parameter>",),
        unwrap=("arguments", "input"),
        syntax=CallSyntax(
            f'<{mark}invoke name="NAME">\nARGUMENTS</{mark}invoke>\n',
            begin=f"<{mark}{wrapper}>\n",
            end=f"</{mark}{wrapper}>",
            arguments=style,
        ),
    )


deepseek_v32 = _dsml("function_calls")
"""`<｜DSML｜invoke name="NAME">` and for each parameter `<｜DSML｜parameter name="KEY" string="true">VALUE</…>`"""

deepseek_v4 = _dsml("tool_calls")
"""As `deepseek_v32` with another tag around the calls"""

deepseek_v41 = _dsml("calls", "deepseek_v4_1_xml", space=" ")
"""As `deepseek_v32` with a space before the names of tags, in `<｜DSML｜ calls>`"""


def thinking(options: Mapping[str, Any]) -> bool:
    """DeepSeek V3's chat templates reason only when asked to."""
    return bool(options.get("thinking") or options.get("enable_thinking"))


def thinking_with_effort(options: Mapping[str, Any]) -> bool | None:
    """DeepSeek V4's chat templates begin with reasoning when asked to with some effort."""
    return True if thinking(options) and options.get("reasoning_effort") != "none" else None


def thinking_unless_disabled(options: Mapping[str, Any]) -> bool | None:
    """DeepSeek V4.1 begins with reasoning unless told not to, or to make no effort."""
    return thinking_with_effort(options if "enable_thinking" in options else {"thinking": True, **options})


_THINK: dict[str, Any] = {"start": ("<think>",), "end": ("</think>",)}

deepseek_r1_reasoning = ReasoningTags(**_THINK)
deepseek_v3_reasoning = ReasoningTags(**_THINK, switch=thinking)
_DSML_THINK: dict[str, Any] = {**_THINK, "begins": "content", "drop_stray": True, "strip_reasoning": "space"}

deepseek_v4_reasoning = ReasoningTags(
    **_DSML_THINK, also_ended_by=("<｜DSML｜tool_calls>",), switch=thinking_with_effort
)
deepseek_v41_reasoning = ReasoningTags(
    **_DSML_THINK, also_ended_by=("<｜DSML｜ calls>",), switch=thinking_unless_disabled
)
