"""What this package declares."""

from __future__ import annotations

from collections.abc import Iterator

from modelhost.api import ReasoningParser, ToolParser, hookimpl

API = (1, 0)

_FORMATS = "modelhost_hunyuan_parsers.formats"
_HUNYUAN_V1 = ("HunYuanMoEV1ForCausalLM", "HunYuanDenseV1ForCausalLM")


@hookimpl
def modelhost_tool_parsers() -> Iterator[ToolParser]:
    yield ToolParser(
        "hunyuan_a13b",
        target=f"{_FORMATS}:hunyuan_a13b",
        architectures=_HUNYUAN_V1,
        template=("<tool_calls>[", "<|extra_0|>"),
        models="Hunyuan-A13B",
    )
    yield ToolParser(
        "hy_v3",
        target=f"{_FORMATS}:hy_v3",
        architectures=("HYV3ForCausalLM",),
        template=("tool_sep", "arg_key"),
        keep_special_tokens=True,
        models="Hunyuan 3",
    )
    yield ToolParser(
        "hy_v4",
        target=f"{_FORMATS}:hy_v4",
        architectures=("HYV4ForCausalLM",),
        template=("<tool_calls", "<arg_key"),
        keep_special_tokens=True,
        models="Hunyuan 4",
    )


@hookimpl
def modelhost_reasoning_parsers() -> Iterator[ReasoningParser]:
    yield ReasoningParser(
        "hunyuan_a13b",
        target=f"{_FORMATS}:hunyuan_a13b_reasoning",
        architectures=_HUNYUAN_V1,
        template=("<think>", "<answer>"),
        models="Hunyuan-A13B",
    )
    yield ReasoningParser(
        "hy_v3",
        target=f"{_FORMATS}:hy_v3_reasoning",
        architectures=("HYV3ForCausalLM",),
        template=("<think", "reasoning_effort"),
        keep_special_tokens=True,
        models="Hunyuan 3",
    )
    yield ReasoningParser(
        "hy_v4",
        target=f"{_FORMATS}:hy_v4_reasoning",
        architectures=("HYV4ForCausalLM",),
        template=("<think", "no_think"),
        keep_special_tokens=True,
        models="Hunyuan 4",
    )
