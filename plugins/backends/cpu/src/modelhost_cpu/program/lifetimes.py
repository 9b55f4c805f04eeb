"""How long tensors are needed."""

from __future__ import annotations

import math
from collections.abc import Iterable

from modelhost.api.backend import Graph, Tensor

from .views import View


class Lifetimes:
    """The last use of every tensor of a graph.

    Attributes:
        place: number of the node that is being lowered.
    """

    def __init__(self, graph: Graph) -> None:
        self.place = 0
        self._last: dict[object, float] = {}
        for place, node in enumerate(graph.nodes):
            self._last |= dict.fromkeys(node.operands, place)
        self._last |= dict.fromkeys(graph.outputs.values(), math.inf)

    def needed_later(self, tensor: Tensor) -> bool:
        """Whether a later node or the caller reads it."""
        return self._last.get(tensor, -1) > self.place

    def free(self, view: View, others: Iterable[tuple[Tensor, View]]) -> bool:
        """Whether the memory of ``view`` may be overwritten by the current node.

        Args:
            others: all tensors that have memory, those at ``view`` among them.
        """
        if view.buffer is None:
            return False
        sharing = ((tensor, other) for tensor, other in others if other.buffer is view.buffer)
        return not any(view.overlaps(other) and self.needed_later(tensor) for tensor, other in sharing)
