"""``modelhost explain``: which plugins run a model, and how each op is computed."""

from __future__ import annotations

from typing import Annotated

import typer

from .explanation import Explanation, OpUse, explanation_of
from .loaded import boot_plugins, model_line, open_source, warn_about
from .options import EngineOptions, JsonFlag, ModelArgument
from .terminal import print_json, print_line, print_table

GraphFlag = Annotated[bool, typer.Option("--graph", help="Print the whole graph")]


def explain(model: ModelArgument, engine: EngineOptions, graph: GraphFlag = False, json: JsonFlag = False) -> int:
    """Show which architecture and backend would run MODEL and why, and how the backend computes each op.

    The exit code is 1 when the backend lacks an op.
    """
    from modelhost.engine.config import EngineConfig
    from modelhost.graph.passes import lower
    from modelhost.loading import create_backend
    from modelhost.plugins import select_backend

    config = EngineConfig.parse(**engine.settings())
    registry = boot_plugins(no_plugins=engine.no_plugins)
    source = open_source(model, registry)
    dtype = None if config.dtype == "auto" else config.dtype
    selection = select_backend(registry, config.backend, config.device, dtype)
    backend = create_backend(selection, registry)
    explanation = explanation_of(source, selection, backend)
    warn_about(registry, selection)
    if json:
        print_json({**explanation.data(), **({"graph": str(explanation.graph)} if graph else {})})
    else:
        _print(explanation, graph=graph)
    lower(explanation.graph, native=backend.native, backend=backend.name)
    return 0


def _print(explanation: Explanation, *, graph: bool) -> None:
    from modelhost.engine.memory import gib

    print_line(f"model: {model_line(explanation.source)}")
    print_line(explanation.source.selection.explain())
    print_line(explanation.selection.explain())
    print_line(f"device: {explanation.selection.device}\ndtype: {explanation.selection.dtype}\n")
    print_table("Ops of the optimised graph", ["op", ">count", "tier"], map(_op_row, explanation.ops))
    print_table(
        "Parameters",
        ["encoding", ">tensors", ">values", ">in the checkpoint", ">loaded", "computed on"],
        (
            (
                use.encoding,
                f"{use.tensors:,}",
                f"{use.values:,}",
                gib(use.encoded),
                gib(use.resident),
                "as it is" if use.native else f"as {explanation.selection.dtype}",
            )
            for use in explanation.encodings
        ),
    )
    print_table(
        "KV cache",
        ["group", ">layers", ">window", ">bytes per token"],
        (
            (one.group, str(one.layers), "all" if one.window is None else str(one.window), f"{one.bytes_per_token:,}")
            for one in explanation.caches
        ),
    )
    if graph:
        print_line(str(explanation.graph))


def _op_row(use: OpUse) -> tuple[str, str, str]:
    kernels = ", ".join(f"{count} {name}" for name, count in use.kernels.items())
    return use.op, f"{use.count:,}", f"{use.tier} into {kernels}" if kernels else use.tier
