"""Blocks of 256 columns whose parts have integer scales: Q2_K to Q6_K of ``ggml`` (``ggml/src/ggml-common.h``)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass

from modelhost_cpu.language.function import Function
from modelhost_cpu.language.types import f32, i8, i32, i64, vector
from modelhost_cpu.language.value import Value

from .packing import ROWS
from .planes import byte_mask
from .quantized import PART, Factors, Quantized

_BLOCK = 256


@dataclass(frozen=True)
class _SuperBlocks(Quantized):
    """Factors of a part, packed: for each ``scale_columns`` the scale as a byte of every row, then the minimum."""

    block: int = _BLOCK

    @property
    def _scales(self) -> int:
        """Scales of a part."""
        return PART // self.scale_columns

    @property
    def part_factor_bytes(self) -> int:
        return ROWS * self._scales * (1 + self.has_minimum)

    @abstractmethod
    def source_scale(self, k: Function, source: Value, index: Value) -> tuple[Value, ...]:
        """What is kept of integer scale number ``index`` of a source block, and of its minimum; ``i8`` each."""

    def pack_part_factors(self, k: Function, source: Value, part: Value, destination: Value, row: Value) -> None:
        for scale in range(self._scales):
            for kind, number in enumerate(self.source_scale(k, source, part * self._scales + scale)):
                k.store(number, destination + row, ROWS * (kind * self._scales + scale))

    def integers(self, k: Function, factors: Value, scale: int, lanes: int) -> tuple[Value, ...]:
        """Integer scale number ``scale`` of the part whose factors are at ``factors``, and its minimum; ``i32``."""
        kinds = 1 + self.has_minimum
        kept = [k.load(vector(i8, lanes), factors, ROWS * (kind * self._scales + scale)) for kind in range(kinds)]
        return tuple(number.to(i32, unsigned=self.has_minimum) for number in kept)

    def factors(self, k: Function, common: Factors, part: Value, first: Value | int, lanes: int) -> Iterator[Factors]:
        for index in range(self._scales):
            scale, *minimum = (number.to(f32) for number in self.integers(k, part + first, index, lanes))
            below = -common.minimum * minimum[0] if common.minimum is not None else None
            yield Factors(common.scale * scale, below)


def _bits(x: Value, shift: Value, width: int) -> Value:
    """``width`` bits of every byte from bit ``shift`` on."""
    return (x >> shift.to(i32).splat(8)) & byte_mask((1 << width) - 1)


def _quads(k: Function, source: Value, offset: Value | int) -> Value:
    return k.load(vector(i32, 8), source + offset)


def _sixth_bits(k: Function, scales: Value, index: Value) -> tuple[Value, Value]:
    """Scale and minimum, 6 bits each, of the twelve bytes of Q4_K and Q5_K."""
    low, mid, high = (k.load(i32, scales, 4 * word) for word in range(3))
    four, two = byte_mask(0x0F), byte_mask(0x30)
    scale = low & byte_mask(0x3F), (high & four) | ((low >> 2) & two)
    minimum = mid & byte_mask(0x3F), ((high >> 4) & four) | ((mid >> 2) & two)

    def chosen(halves: tuple[Value, Value]) -> Value:
        both = halves[0].to(i64, unsigned=True) | (halves[1].to(i64, unsigned=True) << 32)
        return (both >> (index * 8)).to(i8)

    return chosen(scale), chosen(minimum)


@dataclass(frozen=True)
class _Q4K(_SuperBlocks):
    """Scale, minimum, 12 bytes of scales, then 32 bytes for two parts each."""

    source_bytes: int = 144

    def source_factors(self) -> tuple[int, ...]:
        return 0, 2

    def source_scale(self, k: Function, source: Value, index: Value) -> tuple[Value, ...]:
        return _sixth_bits(k, source + 4, index)

    def source_quads(self, k: Function, source: Value, part: Value) -> Value:
        return _bits(_quads(k, source, (part >> 1) * 32 + 16), (part & 1) * 4, 4)


@dataclass(frozen=True)
class _Q5K(_Q4K):
    """Like Q4_K, with 32 bytes of bit 4 before the others: bit ``p`` of a byte for part ``p``."""

    source_bytes: int = 176

    def source_quads(self, k: Function, source: Value, part: Value) -> Value:
        low = _bits(_quads(k, source, (part >> 1) * 32 + 48), (part & 1) * 4, 4)
        return low | (_bits(_quads(k, source, 16), part, 1) << 4)


@dataclass(frozen=True)
class _Q6K(_SuperBlocks):
    """For each half: 64 bytes of bits 0 to 3. Then 32 bytes of bits 4 and 5 each; 16 signed scales; the scale."""

    source_bytes: int = 210

    def source_factors(self) -> tuple[int, ...]:
        return (208,)

    def source_scale(self, k: Function, source: Value, index: Value) -> tuple[Value, ...]:
        return (k.load(i8, source + index, 192),)

    def source_quads(self, k: Function, source: Value, part: Value) -> Value:
        half, quarter = part >> 2, part & 3
        low = _bits(_quads(k, source, half * 64 + (part & 1) * 32), (quarter >> 1) * 4, 4)
        return low | (_bits(_quads(k, source, half * 32 + 128), quarter * 2, 2) << 4)


@dataclass(frozen=True)
class _Q2K(_SuperBlocks):
    """16 bytes of scales and minima, which stay together, 32 bytes for four parts each, scale, minimum."""

    source_bytes: int = 84

    def source_factors(self) -> tuple[int, ...]:
        return 80, 82

    @property
    def part_factor_bytes(self) -> int:
        return ROWS * self._scales

    def source_scale(self, k: Function, source: Value, index: Value) -> tuple[Value, ...]:
        return (k.load(i8, source + index),)

    def integers(self, k: Function, factors: Value, scale: int, lanes: int) -> tuple[Value, ...]:
        both = k.load(vector(i8, lanes), factors, ROWS * scale).to(i32, unsigned=True)
        return both & 15, both >> 4

    def source_quads(self, k: Function, source: Value, part: Value) -> Value:
        return _bits(_quads(k, source, (part >> 2) * 32 + 16), (part & 3) * 2, 2)


@dataclass(frozen=True)
class _Q3K(_SuperBlocks):
    """32 bytes of bit 2, 32 bytes for four parts each, 12 bytes of scales, scale."""

    source_bytes: int = 110

    def source_factors(self) -> tuple[int, ...]:
        return (108,)

    def source_scale(self, k: Function, source: Value, index: Value) -> tuple[Value, ...]:
        low = k.load(i8, source + (index & 7), 96) >> ((index >> 3) * 4).to(i8)
        high = k.load(i8, source + (index & 3), 104) >> ((index >> 2) * 2).to(i8)
        return ((low & 15) + ((high & 3) << 4) - 32,)

    def source_quads(self, k: Function, source: Value, part: Value) -> Value:
        low = _bits(_quads(k, source, (part >> 2) * 32 + 32), (part & 3) * 2, 2)
        return low | (_bits(_quads(k, source, 0), part, 1) << 2)


SUPER_BLOCKS: tuple[Quantized, ...] = (
    _Q2K("q2_k", (2,), has_minimum=True, scale_columns=16),
    _Q3K("q3_k", (2, 1), offset=4, scale_columns=16),
    _Q4K("q4_k", (4,), has_minimum=True),
    _Q5K("q5_k", (4, 1), has_minimum=True),
    _Q6K("q6_k", (4, 2), offset=32, scale_columns=16),
)
