"""The blocks of one KV group: which are free, which are shared, and which hold a prefix that can be used again."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from itertools import islice

NULL_BLOCK = 0
"""Stands in a block table where a block was freed; never handed out, never read."""


class BlockPool:
    """Hands out block numbers ``1 .. blocks-1``.

    A block that nobody uses keeps its contents, and the hash it was registered under, until it is handed out again; the
    one that was given back first goes first.
    """

    def __init__(self, blocks: int) -> None:
        self.capacity = blocks - 1
        self._free = OrderedDict.fromkeys(range(1, blocks))
        self._users: dict[int, int] = {}
        self._block_of: dict[bytes, int] = {}
        self._hash_of: dict[int, bytes] = {}

    @property
    def free(self) -> int:
        """Blocks that can be taken now, those with contents to use again among them."""
        return len(self._free)

    def take(self, count: int) -> list[int]:
        """``count`` blocks of their own. The caller has checked :attr:`free`."""
        blocks = list(islice(self._free, count))
        for block in blocks:
            del self._free[block]
            self._users[block] = 1
            self._forget(block)
        return blocks

    def share(self, block: int) -> None:
        """One more sequence uses ``block``."""
        self._free.pop(block, None)
        self._users[block] = self._users.get(block, 0) + 1

    def give_back(self, blocks: Iterable[int], *, first: bool = False) -> None:
        """One user less for each of ``blocks``; null blocks among them are ignored.

        Args:
            first: those that nobody uses now are handed out before all others.
        """
        for block in blocks:
            if block == NULL_BLOCK:
                continue
            self._users[block] -= 1
            if self._users[block] == 0:
                del self._users[block]
                self._free[block] = None
                self._free.move_to_end(block, last=not first)

    def is_free(self, block: int) -> bool:
        """Whether nobody uses ``block``."""
        return block in self._free

    def register(self, block: int, hash: bytes) -> None:
        """``block`` holds the end of the prefix that ``hash`` stands for. The first block of a hash is kept."""
        if hash not in self._block_of and block != NULL_BLOCK:
            self._forget(block)
            self._block_of[hash] = block
            self._hash_of[block] = hash

    def find(self, hash: bytes) -> int | None:
        """The block registered under ``hash``."""
        return self._block_of.get(hash)

    def _forget(self, block: int) -> None:
        hash = self._hash_of.pop(block, None)
        if hash is not None:
            del self._block_of[hash]
