"""Blocks of 32 columns with one scale: Q4_0, Q4_1, Q5_0, Q5_1 and Q8_0 of ``ggml`` (``ggml/src/ggml-common.h``)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from modelhost_cpu.language.function import Function
from modelhost_cpu.language.types import i1, i8, i32, vector
from modelhost_cpu.language.value import Value

from .planes import byte_mask
from .quantized import PART, Factors, Quantized


@dataclass(frozen=True)
class SmallBlocks(Quantized):
    """A source block: scale, minimum, bit 4 of all numbers, then bits 0 to 3 of columns 0 to 15 in the low halves of
    bytes and those of columns 16 to 31 in the high ones. Or scale and signed bytes.
    """

    @property
    def _low_bits_at(self) -> int:
        return 2 * (1 + self.has_minimum) + (4 if 1 in self.planes else 0)

    @property
    def source_bytes(self) -> int:
        return self._low_bits_at + PART * self.planes[0] // 8

    @property
    def part_factor_bytes(self) -> int:
        return 0

    def source_factors(self) -> tuple[int, ...]:
        return (0, 2)[: 1 + self.has_minimum]

    def source_quads(self, k: Function, source: Value, part: Value) -> Value:
        if self.planes[0] == 8:
            return k.load(vector(i32, 8), source, self._low_bits_at) ^ byte_mask(0x80)
        nibbles = k.load(vector(i32, 4), source, self._low_bits_at)
        low = (nibbles & byte_mask(0x0F)).join((nibbles >> 4) & byte_mask(0x0F))
        if 1 not in self.planes:
            return low
        high = k.load(i32, source, self._low_bits_at - 4).bits(vector(i1, PART)).to(i8)
        return low | ((high << 4).bits(vector(i32, 8)))

    def pack_part_factors(self, k: Function, source: Value, part: Value, destination: Value, row: Value) -> None:
        """There are none."""

    def factors(self, k: Function, common: Factors, part: Value, first: Value | int, lanes: int) -> Iterator[Factors]:
        yield common


SMALL_BLOCKS = (
    SmallBlocks("q8_0", (8,), offset=128),
    SmallBlocks("q4_0", (4,), offset=8),
    SmallBlocks("q4_1", (4,), has_minimum=True),
    SmallBlocks("q5_0", (4, 1), offset=16),
    SmallBlocks("q5_1", (4, 1), has_minimum=True),
)
