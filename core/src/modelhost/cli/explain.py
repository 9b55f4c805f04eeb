"""``modelhost explain``: which plugins run a model, and how each op is computed."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .explanation import Explanation, OpUse, explanation_of
from .loaded import boot_plugins, model_line, open_source, parser_data, parser_selections, speculator_lines, warn_about
from .options import EngineOptions, JsonFlag, ModelArgument
from .terminal import note, print_json, print_line, print_table

if TYPE_CHECKING:
    from modelhost.api.backend import KernelBackend
    from modelhost.engine.config import EngineConfig
    from modelhost.engine.memory import MemoryPlan
    from modelhost.plugins import ParserSelection

GraphFlag = Annotated[bool, typer.Option("--graph", help="Print the whole graph")]
HtmlOption = Annotated[
    Path | None,
    typer.Option(
        "--html",
        metavar="FILE",
        help="Draw the graph and the memory plan: one page that needs nothing else",
        dir_okay=False,
        writable=True,
        show_default=False,
    ),
]


def explain(
    model: ModelArgument,
    engine: EngineOptions,
    graph: GraphFlag = False,
    json: JsonFlag = False,
    html: HtmlOption = None,
) -> int:
    """Show what would serve MODEL and why: architecture, backend, parsers, speculator; and how each op is computed.

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
    backend = create_backend(selection, registry, config)
    parsers = parser_selections(source, registry, config)
    speculator = speculator_lines(registry, config)
    explanation = explanation_of(source, selection, backend)
    warn_about(registry, selection)
    if html is not None:
        _write_page(html, explanation, _memory(explanation, backend, config))
    if json:
        tools, reasoning = map(parser_data, parsers)
        data = {**explanation.data(), "tool_parser": tools, "reasoning_parser": reasoning}
        print_json({**data, **({"graph": str(explanation.graph)} if graph else {})})
    else:
        _print(explanation, parsers, speculator, graph=graph)
    lower(explanation.graph, native=backend.native, backend=backend.name)
    return 0


def _memory(explanation: Explanation, backend: KernelBackend, config: EngineConfig) -> MemoryPlan | str:
    """The plan, or why there is none."""
    from modelhost.api import MemoryBudgetError
    from modelhost.engine.memory import plan_memory

    source, graph = explanation.source, explanation.graph
    encoded = {name: (source.encoding_of(p), source.encoded_bytes(p)) for name, p in graph.parameters.items()}
    try:
        return plan_memory(graph, backend, encoded, config, source.config.max_position_embeddings)
    except MemoryBudgetError as error:
        return str(error)


def _write_page(file: Path, explanation: Explanation, memory: MemoryPlan | str) -> None:
    from modelhost.api import ModelHostError

    from .report import render_page

    try:
        file.write_text(render_page(explanation, memory), encoding="utf-8")
    except OSError as error:
        raise ModelHostError(f"{file} cannot be written: {error.strerror}") from error
    note(f"The page is in {file}")


def _print(explanation: Explanation, parsers: Iterable[ParserSelection[Any]], speculator: str, *, graph: bool) -> None:
    from modelhost.engine.memory import gib

    print_line(f"model: {model_line(explanation.source)}")
    print_line(explanation.source.selection.explain())
    print_line(explanation.selection.explain())
    for selection in parsers:
        print_line(selection.explain())
    print_line(speculator)
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
