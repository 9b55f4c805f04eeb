"""Rewrites of a graph that every backend shares. Each is a function from graph to graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..graph import Graph
from ..operation import Operation
from ..tensor import Parameter
from .dead_code import remove_dead_code
from .fuse_residual_norm import fuse_residual_norm
from .lower import lower
from .merge_projections import merge_projections

__all__ = ["fuse_residual_norm", "lower", "merge_projections", "optimize", "remove_dead_code"]


def optimize(
    graph: Graph,
    *,
    native: Callable[[Operation[..., Any]], bool],
    encoding_of: Callable[[Parameter], str],
    backend: str,
) -> Graph:
    """All passes in order: merge projections, fuse residual additions with norms, drop dead code, lower to native ops.

    Args:
        native: whether the backend computes an op itself.
        encoding_of: the encoding of a parameter in the checkpoint; only equally encoded projections are merged.
        backend: the backend's name, for error messages.

    Raises:
        UnsupportedError: an op is not native and has no decomposition into native ones.
    """
    graph = merge_projections(graph, encoding_of)
    graph = fuse_residual_norm(graph)
    graph = remove_dead_code(graph)
    return lower(graph, native=native, backend=backend)
