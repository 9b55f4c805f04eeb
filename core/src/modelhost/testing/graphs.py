"""Graphs built and lowered by hand, for tests of backends."""

from __future__ import annotations

from modelhost.graph.operation import tracing
from modelhost.graph.passes import lower, optimize

__all__ = ["lower", "optimize", "tracing"]
