"""Which blocks of the paged cache hold which tokens of which sequence."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from modelhost.api.backend import CacheLayout
from modelhost.graph.cache import CacheSpec

from .block_pool import NULL_BLOCK, BlockPool


@dataclass(frozen=True, slots=True)
class KVGroup:
    """Layers that keep the same tokens and share a block table.

    Attributes:
        name: as in the graph's inputs ``block_table.<name>``.
        window: tokens that a query sees; ``None`` means all.
        bytes_per_token: of all its layers together.
    """

    name: str
    window: int | None
    bytes_per_token: int

    def blocks_per_sequence(self, tokens: int, step_tokens: int, block_size: int) -> int:
        """Most blocks that a sequence of ``tokens`` holds at one time when a step adds up to ``step_tokens``."""
        if self.window is not None:
            tokens = min(tokens, self.window + step_tokens + block_size)
        return -(-tokens // block_size)


def kv_groups(specs: Iterable[CacheSpec], bytes_per_token: Mapping[CacheSpec, int]) -> tuple[KVGroup, ...]:
    """The groups of a model's caches, in order of first use."""
    sizes: dict[str, int] = {}
    windows: dict[str, int | None] = {}
    for spec in specs:
        sizes[spec.group] = sizes.get(spec.group, 0) + bytes_per_token[spec]
        windows[spec.group] = spec.window
    return tuple(KVGroup(name, windows[name], size) for name, size in sizes.items())


class KVCacheManager:
    """Block tables of all running sequences.

    A group with a window frees the blocks that no later query can see.
    """

    def __init__(self, groups: tuple[KVGroup, ...], layout: CacheLayout) -> None:
        self.groups = groups
        self.block_size = layout.block_size
        self._pools = {group.name: BlockPool(layout.blocks[group.name]) for group in groups}
        self._tables: dict[str, dict[str, list[int]]] = {}

    def allocate(self, sequence: str, computed: int, new: int) -> bool:
        """Make room for ``new`` tokens of ``sequence`` after its first ``computed`` ones.

        Returns:
            False, with nothing taken, when a group lacks the blocks.
        """
        tables = self._tables.setdefault(sequence, {group.name: [] for group in self.groups})
        for group in self.groups:
            self._free_unseen(group, tables[group.name], computed)
        wanted = -(-(computed + new) // self.block_size)
        missing = {group.name: max(0, wanted - len(tables[group.name])) for group in self.groups}
        if any(count > self._pools[name].free for name, count in missing.items()):
            return False
        for name, count in missing.items():
            tables[name].extend(self._pools[name].take(count))
        return True

    def _free_unseen(self, group: KVGroup, table: list[int], computed: int) -> None:
        if group.window is None:
            return
        unseen = max(0, computed - group.window + 1) // self.block_size
        freed = [block for block in table[:unseen] if block != NULL_BLOCK]
        self._pools[group.name].give_back(freed)
        table[:unseen] = [NULL_BLOCK] * min(unseen, len(table))

    def free(self, sequence: str) -> None:
        """Give back all blocks of ``sequence``; nothing happens when it has none."""
        for name, table in self._tables.pop(sequence, {}).items():
            self._pools[name].give_back(table)

    def block_table(self, group: str, sequence: str) -> list[int]:
        """Blocks of ``sequence`` in order; null where freed."""
        return self._tables[sequence][group]

    def usage(self) -> float:
        """Share of the blocks that are taken, of the fullest group."""
        return max((1 - pool.free / pool.capacity for pool in self._pools.values() if pool.capacity), default=0.0)
