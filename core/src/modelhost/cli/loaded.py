"""Steps that ``run``, ``plan`` and ``explain`` share, and what they say about the choices that were made."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from contextlib import redirect_stdout
from typing import TYPE_CHECKING, Any

from .terminal import warn

if TYPE_CHECKING:
    from modelhost.engine.config import EngineConfig
    from modelhost.loading import ModelSource
    from modelhost.plugins import BackendSelection, Candidate, ParserSelection, Registry, Selection


def boot_plugins(*, no_plugins: bool = False, refresh: bool = False) -> Registry:
    """The installed plugins. What they print while they are imported does not mix with a command's results."""
    from modelhost.plugins import boot

    with redirect_stdout(sys.stderr):
        return boot(no_plugins=no_plugins, refresh=refresh)


def open_source(model: str, registry: Registry) -> ModelSource:
    """Find and open a checkpoint, and build its model."""
    from modelhost.hub import resolve
    from modelhost.loading import open_model

    return open_model(resolve(model), registry)


def warn_about(registry: Registry, selection: BackendSelection) -> None:
    """Warnings that the user should see whatever the command prints."""
    warn([*registry.warnings, *([selection.warning] if selection.warning else [])])


def model_line(source: ModelSource) -> str:
    """The checkpoint's name and format."""
    return f"{source.checkpoint.path}{os.sep if source.checkpoint.path.is_dir() else ''} ({source.checkpoint.format})"


def architecture_line(source: ModelSource) -> str:
    """The architecture and the package that provides it."""
    return f"{source.selection.chosen.id} ({source.selection.chosen.owner})"


def backend_line(selection: BackendSelection) -> str:
    """The backend, where it runs and why it was chosen."""
    chosen = selection.chosen
    return f"{chosen.id} ({chosen.owner}) on {selection.device} in {selection.dtype}: {reason(selection)}"


def reason(selection: Selection[Any]) -> str:
    """Why the chosen record was chosen."""
    return next(candidate.reason for candidate in selection.candidates if candidate.verdict == "chosen")


def selection_data(selection: Selection[Any]) -> dict[str, Any]:
    """A selection as plain data."""
    chosen = selection.chosen
    return {
        "id": chosen.id,
        "distribution": chosen.distribution,
        "version": chosen.version,
        "candidates": _candidates(selection.candidates),
        "warning": selection.warning,
    }


def parser_selections(
    source: ModelSource, registry: Registry, config: EngineConfig
) -> tuple[ParserSelection[Any], ParserSelection[Any]]:
    """The parsers of calls and of reasoning that a chat with the model would use; nothing is loaded.

    Raises:
        PluginError, UnsupportedError: as :func:`modelhost.plugins.select_parser`.
        TokenizerError: the tokenizer is corrupt.
    """
    from modelhost.api import ReasoningParser, ToolParser
    from modelhost.engine.model import model_traits, open_tokenizer
    from modelhost.plugins import select_parser

    tokenizer = open_tokenizer(source.checkpoint)
    with_tools, without = model_traits(source, tokenizer, tools=True), model_traits(source, tokenizer)
    return (
        select_parser(registry, ToolParser, config.tool_call_parser, with_tools),
        select_parser(registry, ReasoningParser, config.reasoning_parser, without),
    )


def speculator_lines(registry: Registry, config: EngineConfig) -> str:
    """The speculator that was asked for, or those that could be, and why.

    Raises:
        PluginError: the one that was asked for is unknown or broken.
    """
    from modelhost.api import Speculator
    from modelhost.plugins import select

    if config.speculative_config is not None:
        return select(registry, Speculator, config.speculative_config.method).explain()
    lines = [f"  usable       {one.id} ({one.owner}): not asked for" for one in registry.all(Speculator)]
    return "\n".join(["speculator: none: --speculative-config names none", *lines])


def parser_data(selection: ParserSelection[Any]) -> dict[str, Any]:
    """A parser selection as plain data."""
    chosen = selection.chosen
    return {
        "id": chosen.id if chosen else None,
        "distribution": chosen.distribution if chosen else None,
        "version": chosen.version if chosen else None,
        "reason": selection.reason,
        "candidates": _candidates(selection.candidates),
        "others": selection.others,
    }


def _candidates(candidates: Iterable[Candidate]) -> list[dict[str, str]]:
    return [{"id": one.id, "owner": one.owner, "verdict": one.verdict, "reason": one.reason} for one in candidates]
