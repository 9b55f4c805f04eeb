"""``modelhost plan``: the memory that a model takes, before anything is loaded."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from .loaded import architecture_line, backend_line, boot_plugins, model_line, open_source, selection_data, warn_about
from .options import EngineOptions, JsonFlag, ModelArgument
from .terminal import print_json, print_table, warn

if TYPE_CHECKING:
    from modelhost.loading import PreparedModel


def plan(model: ModelArgument, engine: EngineOptions, json: JsonFlag = False) -> int:
    """Show the memory that "modelhost run" would take with the same options, without loading the weights.

    The exit code is 1 when the model does not fit.
    """
    from modelhost.engine.config import EngineConfig
    from modelhost.loading import prepare_model

    config = EngineConfig.parse(**engine.settings())
    registry = boot_plugins(no_plugins=engine.no_plugins)
    prepared = prepare_model(open_source(model, registry), registry, config)
    warn_about(registry, prepared.backend_selection)
    process = _process_memory(prepared)
    if json:
        print_json(plan_data(prepared, process))
    else:
        print_table("Memory plan", [], _rows(prepared, process))
    return 0


def _process_memory(prepared: PreparedModel) -> int | None:
    """Bytes of this process with the tokenizer. One that cannot be opened is left out, with a warning."""
    from modelhost.api import ModelHostError
    from modelhost.api.system import resident_memory
    from modelhost.engine.model import open_tokenizer

    try:
        tokenizer = open_tokenizer(prepared.source.checkpoint)
    except ModelHostError as error:
        tokenizer = None
        warn([f"the memory of the tokenizer is left out: {error}"])
    process = resident_memory()
    del tokenizer
    return process


def plan_data(prepared: PreparedModel, process: int | None) -> dict[str, Any]:
    """The plan as plain data; sizes are in bytes.

    Args:
        process: what the interpreter, its libraries and the tokenizer take.
    """
    memory, layout = prepared.memory, prepared.memory.layout
    return {
        "model": str(prepared.source.checkpoint.path),
        "format": prepared.source.checkpoint.format,
        "architecture": selection_data(prepared.source.selection),
        "backend": selection_data(prepared.backend_selection),
        "device": prepared.backend.device,
        "dtype": prepared.backend.dtype,
        "max_model_len": memory.max_model_len,
        "block_size": layout.block_size,
        "weights": {"encoded": memory.encoded, "resident": memory.weights},
        "kv_cache": [
            {
                "group": group.name,
                "window": group.window,
                "blocks": layout.blocks[group.name],
                "bytes_per_token": group.bytes_per_token,
                "bytes_per_slot": group.bytes_per_slot,
                "bytes": layout.blocks[group.name] * group.bytes_per_block(layout.block_size),
            }
            for group in memory.groups
        ],
        "workspace": memory.workspace,
        "peak": memory.total,
        "process": process,
        "peak_resident": _peak_resident(prepared, process),
        "budget": memory.available,
    }


def _rows(prepared: PreparedModel, process: int | None) -> Iterator[tuple[str, str]]:
    from modelhost.engine.memory import gib

    yield "model", model_line(prepared.source)
    yield "architecture", architecture_line(prepared.source)
    yield "backend", backend_line(prepared.backend_selection)
    yield "dtype", prepared.backend.dtype
    yield from prepared.memory.rows()
    if process is not None:
        yield "process", f"{gib(process)} for the interpreter, its libraries and the tokenizer"
    resident = _peak_resident(prepared, process)
    if resident is not None:
        yield "peak resident", gib(resident)


def _peak_resident(prepared: PreparedModel, process: int | None) -> int | None:
    """The most host memory that the process will have; unknown for a model that lies on another device."""
    return None if process is None or prepared.backend.device != "cpu" else process + prepared.memory.total
