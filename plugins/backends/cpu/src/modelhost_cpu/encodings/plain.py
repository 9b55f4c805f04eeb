"""Values without blocks: float32, float16 and bfloat16."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from modelhost_cpu.language.convert import widen
from modelhost_cpu.language.function import Function
from modelhost_cpu.language.types import bf16, f16, f32, i16, i32, vector
from modelhost_cpu.language.value import Value

from .packing import ROWS

_ELEMENTS = {"f32": f32, "f16": f16, "bf16": bf16}


@dataclass(frozen=True)
class Plain:
    """One column of sixteen rows after the other.

    Attributes:
        name: ``"f32"``, ``"f16"`` or ``"bf16"``.
    """

    name: str
    block: int = 1

    @property
    def source_bytes(self) -> int:
        return 4 if self.name == "f32" else 2

    @property
    def block_bytes(self) -> int:
        return ROWS * self.source_bytes

    def pack(self, k: Function, rows: Sequence[Value], destination: Value) -> None:
        element = i32 if self.name == "f32" else i16
        for row, source in enumerate(rows):
            k.store(k.load(element, source), destination, row * self.source_bytes)

    def columns(self, k: Function, block: Value) -> Iterator[tuple[int, Value]]:
        if self.name == "f32":
            yield 0, k.load(vector(f32, ROWS), block)
        else:
            yield 0, widen(k, k.load(vector(i16, ROWS), block), _ELEMENTS[self.name])
