"""Values without blocks: float32, float16 and bfloat16."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from modelhost_cpu.language.convert import narrow, widen
from modelhost_cpu.language.function import Function
from modelhost_cpu.language.types import bf16, f16, f32, i1, i16, i32, vector
from modelhost_cpu.language.value import Value

from .packing import ROWS, row_address

_ELEMENTS = {"f16": f16, "bf16": bf16}
_ITEM_BYTES = {"f32": 4, "f16": 2, "bf16": 2}


@dataclass(frozen=True)
class Plain:
    """One column of sixteen rows after the other; of bfloat16 two columns: ``[16 rows][2 columns]``.

    Attributes:
        name: ``"f32"``, ``"f16"`` or ``"bf16"``.
    """

    name: str

    @property
    def block(self) -> int:
        return 2 if self.name == "bf16" else 1

    @property
    def part(self) -> int:
        return self.block

    @property
    def block_bytes(self) -> int:
        return ROWS * _ITEM_BYTES[self.name] * self.block

    def pack(self, k: Function, source: str, rows: Value, columns: int, destination: Value) -> Value:
        block, nbytes = self.block, _ITEM_BYTES[self.name]
        with k.loop(0, columns) as column:
            target = destination + (column // block) * self.block_bytes + (column % block) * nbytes
            with k.loop(0, ROWS) as row:
                value = self._convert(k, source, row_address(k, rows, row) + column * _ITEM_BYTES[source])
                k.store(value, target + row * (block * nbytes))
        return k.constant(i1, 0)

    def _convert(self, k: Function, source: str, address: Value) -> Value:
        if source == self.name:
            return k.load(i32 if source == "f32" else i16, address)
        if (source, self.name) != ("f32", "bf16"):
            raise ValueError(f"{source} values cannot be packed as {self.name}")
        return narrow(k, k.load(f32, address), bf16)

    def columns(self, k: Function, block: Value, part: Value | int = 0) -> Iterator[tuple[int, Value]]:
        if self.name == "f32":
            yield 0, k.load(vector(f32, ROWS), block)
        elif self.name == "f16":
            yield 0, widen(k, k.load(vector(i16, ROWS), block), f16)
        else:
            pairs = k.load(vector(i32, ROWS), block)
            yield 0, (pairs << 16).bits(vector(f32, ROWS))
            yield 1, (pairs & -0x10000).bits(vector(f32, ROWS))

    def row(self, k: Function, block: Value, row: Value, part: Value | int = 0) -> Value:
        if self.name == "f32":
            return k.load(vector(f32, 1), block + row * 4)
        values = k.load(vector(i16, self.block), block + row * (2 * self.block))
        return widen(k, values, _ELEMENTS[self.name])
