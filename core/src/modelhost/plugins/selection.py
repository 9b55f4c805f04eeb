"""Chooses the record for what a checkpoint or a user asks for, and says why."""

from __future__ import annotations

from typing import Any, Literal, TypeVar, overload

from modelhost.api import Architecture, PluginError, Record

from .backend_selection import BackendSelection, select_backend
from .candidate import Candidate, Selection, candidate, unusable
from .info import Registration
from .known import GGUF, known_plugins
from .registry import Registry
from .unknown import unknown

__all__ = ["BackendSelection", "Candidate", "Selection", "select", "select_architecture", "select_backend"]

Format = Literal["hf", "gguf"]
R = TypeVar("R", bound=Record)


@overload
def select(registry: Registry, kind: type[R], id: str) -> Selection[R]: ...
@overload
def select(registry: Registry, kind: str, id: str) -> Selection[Any]: ...
def select(registry: Registry, kind: str | type[Record], id: str) -> Selection[Any]:
    """The record of ``kind`` with this id: a parser, a speculator, an executor.

    Raises:
        PluginError: no usable plugin provides it, or several do.
    """
    chosen = registry.find(kind, id)
    line = candidate(chosen, "chosen", f"provides {chosen.kind} {id!r}")
    return Selection(chosen, (line, *_unusable_providers(registry, chosen.kind, id)))


def select_architecture(registry: Registry, name: str, format: Format) -> Selection[Architecture]:
    """The architecture that reads a checkpoint.

    Args:
        name: the entry of ``architectures`` in config.json (``"hf"``), or ``general.architecture`` (``"gguf"``).

    Raises:
        PluginError: no usable plugin reads it (the text says what to install), or several do.
    """
    if format == "hf":
        return select(registry, Architecture, name)
    architectures = registry.all(Architecture)
    matches = [one for one in architectures if name in one.record.gguf]
    if not matches:
        installed = {gguf: one.distribution for one in architectures for gguf in one.record.gguf}
        raise unknown(GGUF, name, installed, registry.plugins)
    if len({one.id for one in matches}) > 1:
        raise _ambiguous_gguf(name, matches)
    chosen = registry.find(Architecture, matches[0].id)
    line = candidate(chosen, "chosen", f"reads GGUF architecture {name!r}")
    return Selection(chosen, (line, *_unusable_providers(registry, GGUF, name)))


def _ambiguous_gguf(name: str, registrations: list[Registration[Architecture]]) -> PluginError:
    owners = " and ".join(f"{one.id} ({one.owner})" for one in registrations)
    distributions = dict.fromkeys(one.distribution for one in registrations)
    return PluginError(
        f"GGUF architecture {name!r} is read by {owners}.\n"
        f"Uninstall one: {', or '.join(f'pip uninstall {distribution}' for distribution in distributions)}"
    )


def _unusable_providers(registry: Registry, kind: str, id: str) -> list[Candidate]:
    provider = known_plugins().provider(kind, id)
    return [line for plugin in registry.plugins if plugin.distribution == provider for line in unusable([id], plugin)]
