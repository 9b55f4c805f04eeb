"""A program as the arrays that the native driver reads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import numpy as np

from .builder import Call, Program
from .views import Slot, View

if TYPE_CHECKING:
    import numpy.typing as npt

    from modelhost_cpu.native.kernel import KernelSpec

    Int = npt.NDArray[np.int64]


class ProgramImage:
    """Ops and slots of a program with the kernels' addresses in place.

    Attributes:
        ops: int64 ``[calls, 4]``.
        recipes: int64 ``[slots, 4]``.
        slots: int64 ``[slots]``, memory that the driver fills.
        bases: names of the addresses that a step must give, in order; the first is ``""``.
        sizes: names of the sizes that a step must give, in order; the first is ``""``.
    """

    def __init__(self, program: Program, kernels: Mapping[KernelSpec, int]) -> None:
        slots = [[_slot(operand) for operand in call.operands] for call in program.calls]
        every = [slot for operands in slots for slot in operands]
        self.bases = _names(slot.base for slot in every)
        self.sizes = _names(slot.size for slot in every)
        base, size = ({name: index for index, name in enumerate(names)} for names in (self.bases, self.sizes))
        rows = [[base[slot.base], size[slot.size], slot.scale, slot.offset] for slot in every]
        self.recipes: Int = np.array(rows, np.int64).reshape(-1, 4)
        self.slots: Int = np.zeros(len(every), np.int64)
        self.ops: Int = self._ops(program.calls, kernels)

    def work(self) -> Int:
        """How much every call had to do in the last step, int64 ``[calls]``."""
        starts = (self.ops[:, 1] - self.slots.ctypes.data) // self.slots.itemsize
        return self.slots[starts]

    def _ops(self, calls: list[Call], kernels: Mapping[KernelSpec, int]) -> Int:
        address, rows = self.slots.ctypes.data, []
        for call in calls:
            rows.append([kernels[call.spec], address, call.grain, call.columns])
            address += 8 * len(call.operands)
        return np.array(rows, np.int64).reshape(-1, 4)


def _slot(operand: Slot | View) -> Slot:
    return operand.slot if isinstance(operand, View) else operand


def _names(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(["", *names]))
