"""Quantised numbers: ``scale * (number - offset) + minimum``, with scales for every 32 or 16 columns."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from modelhost_cpu.language.convert import widen
from modelhost_cpu.language.function import Function
from modelhost_cpu.language.types import f16, f32, i1, i8, i16, i32, vector
from modelhost_cpu.language.value import Value

from .packing import ROWS, row_address
from .planes import VECTOR_BYTES, load_quads, load_row, store_quads

PART = 32
"""Columns in a part."""
_INFINITE = 0x7C00


@dataclass(frozen=True, slots=True)
class Factors:
    """What turns the numbers of some columns into values.

    Attributes:
        scale: ``lanes x f32``.
        minimum: ``lanes x f32`` to add, or ``None``.
    """

    scale: Value
    minimum: Value | None


@dataclass(frozen=True)
class Quantized(ABC):
    """Blocks of quantised numbers, packed: factors of the block, then parts of 32 columns: their own factors, planes.

    Attributes:
        name: of the encoding.
        planes: bits of the planes that the numbers are kept in.
        offset: subtracted from the unsigned numbers.
        has_minimum: whether values have a minimum.
        block: columns in a block.
        scale_columns: columns that share a scale, 32 or 16.
    """

    name: str
    planes: tuple[int, ...]
    offset: int = 0
    has_minimum: bool = False
    block: int = PART
    scale_columns: int = PART

    @property
    def part(self) -> int:
        return PART

    @property
    def parts(self) -> int:
        """Parts of a block."""
        return self.block // PART

    @property
    @abstractmethod
    def source_bytes(self) -> int:
        """Bytes of a block of one row in a checkpoint."""

    @property
    @abstractmethod
    def part_factor_bytes(self) -> int:
        """Bytes of the factors at the start of a part."""

    @property
    def block_factor_bytes(self) -> int:
        """Bytes of the factors at the start of a block: float16 for each row."""
        return 2 * ROWS * (1 + self.has_minimum)

    @property
    def part_bytes(self) -> int:
        """Bytes of a part of a whole group."""
        return self.part_factor_bytes + VECTOR_BYTES * sum(self.planes)

    @property
    def block_bytes(self) -> int:
        return self.block_factor_bytes + self.parts * self.part_bytes

    @abstractmethod
    def source_factors(self) -> tuple[int, ...]:
        """Where a source block has its float16 factors: scale and, with ``has_minimum``, minimum."""

    @abstractmethod
    def source_quads(self, k: Function, source: Value, part: Value) -> Value:
        """The unsigned numbers of a part of a source block as ``8 x i32``, four columns in each."""

    @abstractmethod
    def pack_part_factors(self, k: Function, source: Value, part: Value, destination: Value, row: Value) -> None:
        """Write the factors of one row of a part, of the part at ``destination``."""

    @abstractmethod
    def factors(self, k: Function, common: Factors, part: Value, first: Value | int, lanes: int) -> Iterator[Factors]:
        """The factors of each ``scale_columns`` of the part at ``part``, of rows ``first`` and on."""

    def common_factors(self, k: Function, block: Value, first: Value | int = 0, lanes: int = ROWS) -> Factors:
        """The factors of the block at ``block``, of rows ``first`` and on."""
        scale, *minimum = (
            widen(k, k.load(vector(i16, lanes), block + first * 2, 2 * ROWS * index), f16)
            for index in range(1 + self.has_minimum)
        )
        return Factors(scale, minimum[0] if minimum else None)

    def part_address(self, block: Value, part: Value | int) -> Value:
        """The address of a part."""
        return block + self.block_factor_bytes + part * self.part_bytes

    def quads(self, k: Function, part: Value, first: int = 0, lanes: int = ROWS) -> Iterator[Value]:
        """The numbers of the part at ``part``: eight ``lanes x i32``, four columns of a row in each; no offset yet."""
        return load_quads(k, part + (self.part_factor_bytes + 4 * first), self.planes, lanes)

    def columns(self, k: Function, block: Value, part: Value | int = 0) -> Iterator[tuple[int, Value]]:
        address = self.part_address(block, part)
        factors = list(self.factors(k, self.common_factors(k, block), address, 0, ROWS))
        for quad, numbers in enumerate(self.quads(k, address)):
            those = factors[4 * quad // self.scale_columns]
            for index in range(4):
                number = (((numbers >> (8 * index)) & 0xFF) - self.offset).to(f32)
                product = number * those.scale if those.minimum is None else k.fma(number, those.scale, those.minimum)
                yield 4 * quad + index, product

    def row(self, k: Function, block: Value, row: Value, part: Value | int = 0) -> Value:
        address = self.part_address(block, part)
        factors = list(self.factors(k, self.common_factors(k, block, row, 1), address, row, 1))
        planes = address + (self.part_factor_bytes + row * 4)
        numbers = (load_row(k, planes, self.planes).bits(vector(i8, PART)).to(i32, unsigned=True) - self.offset).to(f32)
        of_column = [column // self.scale_columns for column in range(PART)]
        product = numbers * _spread([each.scale for each in factors], of_column)
        minima = [each.minimum for each in factors if each.minimum is not None]
        return product + _spread(minima, of_column) if minima else product

    def pack(self, k: Function, source: str, rows: Value, columns: int, destination: Value) -> Value:
        bad = k.variable(k.constant(i1, 0))
        with k.loop(0, columns // self.block) as block, k.loop(0, ROWS) as row:
            numbers = row_address(k, rows, row) + block * self.source_bytes
            self._pack_row(k, numbers, destination + block * self.block_bytes, row)
            for place in self.source_factors():
                exponent = k.load(i16, numbers, place) & _INFINITE
                bad.set(bad.value | exponent.equals(_INFINITE))
        return bad.value

    def _pack_row(self, k: Function, source: Value, destination: Value, row: Value) -> None:
        for index, place in enumerate(self.source_factors()):
            k.store(k.load(i16, source, place), destination + row * 2, 2 * ROWS * index)
        with k.loop(0, self.parts) as part:
            target = self.part_address(destination, part)
            self.pack_part_factors(k, source, part, target, row)
            numbers = self.source_quads(k, source, part)
            store_quads(k, numbers, target + row * 4 + self.part_factor_bytes, self.planes)


def _spread(numbers: Sequence[Value], of_column: list[int]) -> Value:
    """A vector of one of the numbers, ``1 x f32`` each, for every column."""
    every = numbers[0] if len(numbers) == 1 else numbers[0].join(numbers[1])
    return every.shuffle(of_column)
