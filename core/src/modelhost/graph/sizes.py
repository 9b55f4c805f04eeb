"""The values of a graph's symbols in one step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from modelhost.api.errors import GraphError

from .graph import Graph
from .tensor import Symbol

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


def bind_symbols(graph: Graph, inputs: Mapping[str, npt.NDArray[np.int32]]) -> dict[str, int]:
    """Read the size of every symbol off the shapes of ``inputs``.

    Raises:
        GraphError: an input is missing, or two inputs disagree on a size.
    """
    sizes: dict[str, int] = {}
    for name, tensor in graph.inputs.items():
        if name not in inputs:
            raise GraphError(f"graph {graph.name!r} needs input {name!r}; given: {sorted(inputs)}")
        shape = inputs[name].shape
        if len(shape) != len(tensor.shape):
            raise GraphError(f"input {name!r} must be {tensor!r}, got shape {shape}")
        for dim, size in zip(tensor.shape, shape, strict=True):
            wanted = dim if isinstance(dim, int) else None
            if isinstance(dim, Symbol):
                value = (size - dim.offset) // dim.scale
                sizes.setdefault(dim.name, value)
                wanted = sizes[dim.name] * dim.scale + dim.offset
            if size != wanted:
                raise GraphError(f"input {name!r} must be {tensor!r} with {sizes}, got shape {shape}")
    return sizes
