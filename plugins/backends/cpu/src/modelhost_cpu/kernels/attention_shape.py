"""What determines a kernel of attention, and how it divides its scratch memory."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from modelhost_cpu.language import tiles
from modelhost_cpu.machine import Target

from .attention_tasks import MOST_ROWS, PARTITION, ROW_BLOCK
from .cache_layout import LINE, STRIP, CacheShape

STRIPS = PARTITION // STRIP
SPAN = 2 * STRIP
"""Entries that scores are computed for at once: two strips."""
SPANS = PARTITION // SPAN
SCORE_ROW = (PARTITION + STRIP) * 4
"""Bytes from one row of scores to the next; no power of two, so that rows do not compete for places in the cache."""
TILE = 1024


@dataclass(frozen=True)
class AttentionShape:
    """Constants of a kernel of attention.

    Attributes:
        caches: that are attended to, in one softmax.
        group: query heads of a key/value head.
        query_stride: bytes from one token's queries to the next.
        scale: of the scores.
        soft_cap: bound of the scores.
        selected: positions that are given for every token; 0 when it sees all.
        matrix: whether products are computed by matrix instructions in bfloat16.
    """

    caches: tuple[CacheShape, ...]
    group: int
    query_stride: int
    scale: float
    soft_cap: float | None = None
    selected: int = 0
    matrix: bool = False

    @property
    def cache(self) -> CacheShape:
        """One of the caches, all of which have the same heads and sizes."""
        return self.caches[0]

    @property
    def heads(self) -> int:
        """Query heads."""
        return self.cache.kv_heads * self.group

    @property
    def most_rows(self) -> int:
        """Rows that there is scratch memory for."""
        return max(MOST_ROWS, -(-self.group // ROW_BLOCK) * ROW_BLOCK)

    @property
    def columns(self) -> int:
        """Numbers of a value, rounded up to whole vectors."""
        return -(-self.cache.value_dim // STRIP) * STRIP

    @property
    def steps(self) -> int:
        """Matrix products that add up to scores."""
        return -(-self.cache.key_cells // STRIP)

    @property
    def stored_row(self) -> int:
        """Bytes of the result of a partition for one row: a maximum, a sum and a value."""
        return 4 * (2 + self.columns)

    @property
    def tail_lines(self) -> int:
        """Lines of the keys of a strip that are not enough for a matrix operand."""
        return self.cache.key_cells % STRIP

    @property
    def depth(self) -> int:
        """Entries whose values are one operand of a matrix instruction: as many as follow each other in memory."""
        return SPAN if all(not cache.stripped or cache.entries % SPAN == 0 for cache in self.caches) else STRIP

    @cached_property
    def areas(self) -> dict[str, int]:
        """Bytes of the parts of scratch memory, each a multiple of a line."""
        cache = self.cache
        made_keys = STRIPS * self.steps * TILE
        return {
            "queries": self.most_rows * 8,
            "outputs": self.most_rows * 8,
            "positions": self.most_rows * 4,
            "sinks": self.most_rows * 4,
            "maxima": self.most_rows * 4,
            "sums": self.most_rows * 4,
            "values": self.most_rows * self.columns * 4,
            "part_maxima": ROW_BLOCK * 4,
            "part_sums": ROW_BLOCK * 4,
            "part_values": ROW_BLOCK * self.columns * 4,
            "factors": ROW_BLOCK * 4,
            "part_factors": ROW_BLOCK * 4,
            "scores": ROW_BLOCK * SCORE_ROW,
            "lanes": ROW_BLOCK * LINE,
            "key_strips": STRIPS * 8,
            "value_strips": STRIPS * 8,
            "key_rows": STRIP * 8,
            "value_rows": STRIP * 8,
            "made_keys": 0 if all(other.stripped for other in self.caches) else made_keys,
            "made_values": STRIPS * cache.value_strip + 3 * LINE,
            "flags": PARTITION * 4 if self.selected else 0,
            "flagged": SPANS * 8 if self.selected else 0,
            "query_tiles": self.most_rows // STRIP * self.steps * TILE if self.matrix else 0,
            "key_tails": STRIPS * TILE if self.matrix and self.tail_lines else 0,
            "configuration": tiles.CONFIGURATION_BYTES if self.matrix else 0,
            "weights": SPANS * ROW_BLOCK * LINE if self.matrix else 0,
        }

    @property
    def scratch(self) -> int:
        """Bytes of scratch memory."""
        return sum(-(-size // LINE) * LINE for size in self.areas.values())

    def offset(self, area: str) -> int:
        """Where a part of scratch memory starts."""
        position = 0
        for name, size in self.areas.items():
            if name == area:
                return position
            position += -(-size // LINE) * LINE
        raise KeyError(area)


def rows_at_once(target: Target) -> int:
    """Rows that vector instructions compute at once, so that their sums stay in registers."""
    if not target.is_x86:
        return 4
    return {512: 8, 256: 4}.get(target.vector_bits, 2)
