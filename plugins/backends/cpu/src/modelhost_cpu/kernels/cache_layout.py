"""How the paged keys and values of a layer lie in memory.

Memory consists of cells of four bytes: one float32 number, or two bfloat16 numbers.

A block of a cache holds the keys, or the values, of some consecutive entries of a sequence, one head after the other.
Where a head's part of a block is whole strips of sixteen entries, a strip lies as matrix instructions want it:

- keys: for each number of a key (pair of numbers in bfloat16) a line of sixteen cells, one for each entry;
- values: for each entry (pair of entries in bfloat16) a line of cells, one for each number of a value.

Both are operands of dot products of pairs as they are. Blocks of other sizes, and latent caches, whose values are parts
of the keys, hold the numbers of an entry one after the other; see :mod:`modelhost_cpu.kernels.cache_strips`.
"""

from __future__ import annotations

from dataclasses import dataclass

from modelhost.api.backend import CacheSpec, block_entries

STRIP = 16
CELL = 4
LINE = STRIP * CELL
"""Bytes of a line of keys."""
PADDING = 2 * LINE
"""Bytes after the last block that kernels may read but do not use."""


@dataclass(frozen=True)
class CacheShape:
    """The layout of one layer's cache.

    Attributes:
        kv_heads: number of key/value heads.
        key_dim: numbers of a key.
        value_dim: numbers of a value.
        latent: values are the first numbers of the keys.
        entries: in a block.
        item: bytes of a number: 2 for bfloat16, 4 for float32.
        stride: tokens that an entry stands for.
    """

    kv_heads: int
    key_dim: int
    value_dim: int
    latent: bool
    entries: int
    item: int
    stride: int = 1

    @classmethod
    def of(cls, spec: CacheSpec, block_size: int, item: int) -> CacheShape:
        """The layout of the caches of ``spec`` whose blocks stand for ``block_size`` tokens."""
        entries = block_entries(block_size, spec.stride)
        return cls(spec.kv_heads, spec.key_dim, spec.value_dim, spec.latent, entries, item, spec.stride)

    @property
    def stripped(self) -> bool:
        """Whether entries lie in strips."""
        return not self.latent and self.entries % STRIP == 0

    @property
    def paired(self) -> bool:
        """Whether a cell holds two numbers."""
        return self.item < CELL

    @property
    def key_cells(self) -> int:
        """Cells of a key; an odd number of bfloat16 numbers is filled up with a zero."""
        return self.cells(self.key_dim)

    @property
    def key_strip(self) -> int:
        """Bytes of the keys of a strip."""
        return self.key_cells * LINE

    @property
    def value_line(self) -> int:
        """Bytes of a line of values of a strip."""
        return self.value_dim * CELL

    @property
    def value_lines(self) -> int:
        """Lines of values of a strip."""
        return STRIP // (CELL // self.item)

    @property
    def value_strip(self) -> int:
        """Bytes of the values of a strip."""
        return self.value_lines * self.value_line

    @property
    def key_block(self) -> int:
        """Bytes of the keys of one head in a block."""
        return self.entries * self.key_cells * CELL

    @property
    def value_block(self) -> int:
        """Bytes of the values of one head in a block."""
        if self.stripped:
            return self.entries // STRIP * self.value_strip
        return self.entries * self.cells(self.value_dim) * CELL

    @property
    def block_bytes(self) -> tuple[int, ...]:
        """Bytes of a block of keys, and of a block of values unless the cache is latent."""
        sizes = (self.key_block,) if self.latent else (self.key_block, self.value_block)
        return tuple(self.kv_heads * size for size in sizes)

    def cells(self, numbers: int) -> int:
        """Cells that hold so many consecutive numbers."""
        return -(-numbers * self.item // CELL)
