"""What this package declares."""

from __future__ import annotations

from collections.abc import Iterator

from modelhost.api import ToolParser, hookimpl

API = (1, 0)

_FORMATS = "modelhost_llama_parsers.formats"


@hookimpl
def modelhost_tool_parsers() -> Iterator[ToolParser]:
    yield ToolParser(
        "llama3_json",
        target=f"{_FORMATS}:json_calls",
        architectures=("LlamaForCausalLM", "MllamaForConditionalGeneration"),
        template=("<|start_header_id|>", '{"name": function name, "parameters": '),
        keep_special_tokens=True,
        models="Llama 3.1, 3.2 and 3.3",
    )
    yield ToolParser(
        "llama4_json",
        target=f"{_FORMATS}:json_calls",
        architectures=("Llama4ForCausalLM", "Llama4ForConditionalGeneration"),
        template=("<|header_start|>", '{"name": function name, "parameters": '),
        keep_special_tokens=True,
        models="Llama 4",
    )
    yield ToolParser(
        "pythonic",
        target=f"{_FORMATS}:pythonic",
        architectures=("LlamaForCausalLM", "MllamaForConditionalGeneration"),
        template=("<|start_header_id|>", "[func_name1(params_name1=params_value1"),
        models="Llama 3.2, ToolACE",
    )
    yield ToolParser(
        "llama4_pythonic",
        target=f"{_FORMATS}:llama4_pythonic",
        architectures=("Llama4ForCausalLM", "Llama4ForConditionalGeneration"),
        template=("<|header_start|>", "[func_name1(params_name1=params_value1"),
        keep_special_tokens=True,
        models="Llama 4",
    )
