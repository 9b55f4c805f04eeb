"""Where the sequences of a step are, and their recurrent states."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from modelhost.api.backend import Node
from modelhost_cpu.language.types import i32, i64
from modelhost_cpu.language.value import Value
from modelhost_cpu.native.kernel import Kernel
from modelhost_cpu.program.builder import ProgramBuilder
from modelhost_cpu.program.views import Slot, View

SEQUENCE_SLOTS = ("read_slots", "write_slots", "sequence_starts", "context_lengths")
"""Slots of a call that say where the sequences and their states are."""


@dataclass(frozen=True, slots=True)
class ChunkSequence:
    """What a kernel knows about the sequence that it computes.

    Attributes:
        start: its first row.
        end: the row after its last.
        fresh: whether its state is zeros.
        before: address of the state that it starts from; not to be used when it is fresh.
        after: address that its new state goes to.
    """

    start: Value
    end: Value
    fresh: Value
    before: Value
    after: Value


def load_sequence(k: Kernel, number: Value, state_bytes: int) -> ChunkSequence:
    """Sequence ``number``, whose state takes ``state_bytes``."""

    def entry(slot: str, index: Value) -> Value:
        return k.load(i32, k.pointer(slot), index * 4).to(i64)

    start, end = entry("sequence_starts", number), entry("sequence_starts", number + 1)
    fresh = entry("context_lengths", number).equals(end - start)
    before, after = (k.pointer("state") + entry(slot, number) * state_bytes for slot in ("read_slots", "write_slots"))
    return ChunkSequence(start, end, fresh, before, after)


def sequence_operands(b: ProgramBuilder, node: Node, first: int) -> dict[str, Slot | View]:
    """The operands of a node from number ``first`` on, a state and the sequences, by the names of their slots."""
    operands: Any = node.operands
    indices = dict(zip(SEQUENCE_SLOTS, operands[first + 1 : first + 5], strict=True))
    return {"state": b.state(operands[first])[0], **{name: b.view(tensor) for name, tensor in indices.items()}}


def sequence_count(b: ProgramBuilder, node: Node) -> Slot:
    """How many sequences a node of a recurrent layer works on."""
    lengths: Any = node.operands[-1]
    return b.view(lengths).rows
