"""What plugins import. A declaring module needs this package and the standard library only."""

from __future__ import annotations

from .errors import (
    CheckpointError,
    ConfigError,
    GraphError,
    MemoryBudgetError,
    ModelHostError,
    PluginError,
    RequestError,
    TokenizerError,
    UnsupportedError,
    WeightError,
)
from .hookspecs import HOOKS, hookimpl
from .records import (
    Architecture,
    Backend,
    Encoding,
    Endpoint,
    Executor,
    Grammar,
    KVConnector,
    LogitsProcessor,
    ReasoningParser,
    Record,
    Speculator,
    ToolParser,
)
from .version import API, compatible

__all__ = [
    "API",
    "HOOKS",
    "Architecture",
    "Backend",
    "CheckpointError",
    "ConfigError",
    "Encoding",
    "Endpoint",
    "Executor",
    "Grammar",
    "GraphError",
    "KVConnector",
    "LogitsProcessor",
    "MemoryBudgetError",
    "ModelHostError",
    "PluginError",
    "ReasoningParser",
    "Record",
    "RequestError",
    "Speculator",
    "TokenizerError",
    "ToolParser",
    "UnsupportedError",
    "WeightError",
    "compatible",
    "hookimpl",
]
