"""The free blocks of one KV group."""

from __future__ import annotations

from collections import deque

NULL_BLOCK = 0
"""Stands in a block table where a block was freed; never handed out, never read."""


class BlockPool:
    """Hands out block numbers ``1 .. blocks-1`` in first-freed, first-used order."""

    def __init__(self, blocks: int) -> None:
        self.capacity = blocks - 1
        self._free = deque(range(1, blocks))

    @property
    def free(self) -> int:
        """Blocks that can be taken now."""
        return len(self._free)

    def take(self, count: int) -> list[int]:
        """``count`` blocks. The caller has checked :attr:`free`."""
        return [self._free.popleft() for _ in range(count)]

    def give_back(self, blocks: list[int]) -> None:
        """Make ``blocks`` free again; null blocks among them are ignored."""
        self._free.extend(block for block in blocks if block != NULL_BLOCK)
