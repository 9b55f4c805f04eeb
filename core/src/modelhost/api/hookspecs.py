"""The hooks that a plugin can implement. Each returns an iterable of records and runs once, at start-up."""

from __future__ import annotations

from collections.abc import Iterable

import pluggy

from . import records

PROJECT = "modelhost"
hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)
"""Marks a function of a declaring module as an implementation of a hook."""


@hookspec
def modelhost_architectures() -> Iterable[records.Architecture]:
    """Model architectures."""
    raise NotImplementedError


@hookspec
def modelhost_backends() -> Iterable[records.Backend]:
    """Kernel backends."""
    raise NotImplementedError


@hookspec
def modelhost_encodings() -> Iterable[records.Encoding]:
    """Storage formats of weights."""
    raise NotImplementedError


@hookspec
def modelhost_tool_parsers() -> Iterable[records.ToolParser]:
    """Parsers of tool calls."""
    raise NotImplementedError


@hookspec
def modelhost_reasoning_parsers() -> Iterable[records.ReasoningParser]:
    """Parsers of reasoning."""
    raise NotImplementedError


@hookspec
def modelhost_speculators() -> Iterable[records.Speculator]:
    """Speculative decoding methods."""
    raise NotImplementedError


@hookspec
def modelhost_kv_connectors() -> Iterable[records.KVConnector]:
    """Stores for KV cache blocks outside the engine."""
    raise NotImplementedError


@hookspec
def modelhost_logits_processors() -> Iterable[records.LogitsProcessor]:
    """Logits processors."""
    raise NotImplementedError


@hookspec
def modelhost_grammars() -> Iterable[records.Grammar]:
    """Grammar engines."""
    raise NotImplementedError


@hookspec
def modelhost_executors() -> Iterable[records.Executor]:
    """Executors."""
    raise NotImplementedError


@hookspec
def modelhost_endpoints() -> Iterable[records.Endpoint]:
    """HTTP endpoints; active only when the user names them."""
    raise NotImplementedError


HOOKS: dict[str, type[records.Record]] = {
    "modelhost_architectures": records.Architecture,
    "modelhost_backends": records.Backend,
    "modelhost_encodings": records.Encoding,
    "modelhost_tool_parsers": records.ToolParser,
    "modelhost_reasoning_parsers": records.ReasoningParser,
    "modelhost_speculators": records.Speculator,
    "modelhost_kv_connectors": records.KVConnector,
    "modelhost_logits_processors": records.LogitsProcessor,
    "modelhost_grammars": records.Grammar,
    "modelhost_executors": records.Executor,
    "modelhost_endpoints": records.Endpoint,
}
"""The record class that each hook yields."""
