"""Where tensors are: addresses that are known when a step starts."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Slot:
    """An address or an integer: ``base + size * scale + offset``.

    Attributes:
        base: name of an address given at each step, such as ``"input.positions"``; ``""`` for zero.
        size: name of a size given at each step, such as ``"T"``; ``""`` for zero.
        scale: multiplies the size.
        offset: bytes, or an absolute address, or a plain number.
    """

    base: str = ""
    size: str = ""
    scale: int = 0
    offset: int = 0

    def plus(self, offset: int) -> Slot:
        """``offset`` further on."""
        return replace(self, offset=self.offset + offset)


def rows_of(symbol: str, scale: int = 1) -> Slot:
    """The number ``scale * value(symbol)``."""
    return Slot(size=symbol, scale=scale)


@dataclass(eq=False, slots=True)
class Buffer:
    """Memory of one intermediate result: a number of bytes for each unit of a symbol.

    Attributes:
        symbol: whose size multiplies the bytes.
        unit_bytes: a multiple of 64.
        first: number of the call that writes it first.
        last: number of the last call that uses it.
        place: offset in units of the symbol, once planned.
        output: name of the output of the program that it is, in memory of its own; ``""`` for none.
    """

    symbol: str
    unit_bytes: int
    first: int = -1
    last: int = -1
    place: int = 0
    output: str = ""


@dataclass(frozen=True, slots=True)
class View:
    """A tensor in memory, as rows of equal size. The rows are those of its first, symbolic dimension.

    Attributes:
        rows: how many.
        columns: elements of a row, all its other dimensions together.
        stride: bytes from one row to the next; elements of a row lie one after the other.
        place: where it starts, for a tensor that is not in a buffer.
        buffer: the buffer that it is in.
        offset: bytes from the start of the buffer.
        dtype: ``"float32"`` or ``"int32"``.
        version: how many times its memory held something else before.
    """

    rows: Slot
    columns: int
    stride: int
    place: Slot | None = None
    buffer: Buffer | None = None
    offset: int = 0
    dtype: str = "float32"
    version: int = 0

    @property
    def contiguous(self) -> bool:
        """Whether the rows follow one another without gaps."""
        return self.stride == self.columns * 4

    @property
    def symbol(self) -> str:
        """The symbol of its rows."""
        return self.rows.size

    def overlaps(self, other: View) -> bool:
        """Whether they may share memory."""
        if self.buffer is None or self.buffer is not other.buffer:
            return False
        apart = self.offset + self.columns * 4 <= other.offset or other.offset + other.columns * 4 <= self.offset
        return not (apart and self.stride == other.stride)

    def part(self, start: int, columns: int) -> View:
        """``columns`` columns from ``start`` on."""
        place = self.place.plus(start * 4) if self.place is not None else None
        return replace(self, columns=columns, place=place, offset=self.offset + start * 4)

    @property
    def slot(self) -> Slot:
        """The address of the first element; of a buffer once it is planned."""
        if self.place is not None:
            return self.place
        if self.buffer is None:
            raise ValueError("a view is in a buffer or has a place")
        if self.buffer.output:
            return Slot(output_base(self.buffer.output), offset=self.offset)
        symbol = self.buffer.symbol
        return Slot(arena(symbol), symbol, self.buffer.place, self.offset)


def arena(symbol: str) -> str:
    """The base of the buffers of a symbol."""
    return f"arena.{symbol}"


def output_base(name: str) -> str:
    """The base of an output that has memory of its own."""
    return f"output.{name}"


def plan_buffers(buffers: list[Buffer]) -> dict[str, int]:
    """Place buffers so that those in use at one time do not overlap.

    Each goes into the lowest gap that is free for its whole lifetime, in the order in which they are first written.

    Returns:
        bytes for one unit of every symbol.
    """
    totals: dict[str, int] = {}
    alive: dict[str, list[Buffer]] = {}
    for buffer in sorted(buffers, key=lambda one: one.first):
        others = [other for other in alive.get(buffer.symbol, []) if other.last >= buffer.first]
        position = 0
        for other in others:
            if other.place - position >= buffer.unit_bytes:
                break
            position = max(position, other.place + other.unit_bytes)
        buffer.place = position
        alive[buffer.symbol] = sorted([*others, buffer], key=lambda one: one.place)
        totals[buffer.symbol] = max(totals.get(buffer.symbol, 0), position + buffer.unit_bytes)
    return totals
