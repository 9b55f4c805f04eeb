"""The operands of a projection."""

from __future__ import annotations

from dataclasses import dataclass

from modelhost_cpu.encodings.packing import ROWS, Packing
from modelhost_cpu.encodings.plain import Plain
from modelhost_cpu.program.views import Slot, View
from modelhost_cpu.weights import StoredWeight, group_bytes


@dataclass(frozen=True, slots=True)
class Projection:
    """``y = x @ weight.T + bias``.

    Attributes:
        x: rows of ``inputs`` values.
        y: rows of ``outputs`` values.
        stored: the weight; ``None`` when memory is being planned.
        outputs: rows of the weight.
        inputs: columns of the weight.
        bias: address of ``outputs`` float32 values, if there is one.
    """

    x: View
    y: View
    stored: StoredWeight | None
    outputs: int
    inputs: int
    bias: Slot | None

    @property
    def weight(self) -> Slot:
        """Address of the weight."""
        return Slot(offset=self.stored.address if self.stored is not None else 0)

    @property
    def packing(self) -> Packing:
        """How the weight is stored; a stand-in when memory is being planned."""
        stored = self.stored
        return Plain("f32") if stored is None or stored.packing is None else stored.packing

    @property
    def group_bytes(self) -> int:
        """Bytes of sixteen rows of the weight."""
        return group_bytes(self.packing, self.inputs)

    @property
    def weight_bytes(self) -> int:
        """Bytes of the weight."""
        return -(-self.outputs // ROWS) * self.group_bytes

    @property
    def detail(self) -> str:
        """Encoding and shape, for profiles."""
        return f"{self.packing.name} {self.outputs}x{self.inputs}"
