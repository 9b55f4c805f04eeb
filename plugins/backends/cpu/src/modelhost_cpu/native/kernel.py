"""A kernel: a function of the kernel language, specialised by constants, that computes one chunk of an op."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from typing import Any

from llvmlite import ir

from modelhost_cpu.language.function import Function
from modelhost_cpu.language.types import i64, ptr
from modelhost_cpu.language.value import Value
from modelhost_cpu.machine import Target

WORK = "work"
"""The slot that says how much there is to do; its meaning is the kernel's own, mostly rows."""


class Kernel(Function):
    """The function being built: ``void kernel(slots, chunk, scratch)``.

    Slots hold addresses and integers that are known when a step starts. A chunk is a number below that of the call's
    chunks; chunks run in any order on any thread. Scratch is memory of the thread's own, 64-byte aligned.
    """

    def __init__(self, module: ir.Module, spec: KernelSpec, target: Target) -> None:
        arguments = {"slots": ptr, "chunk": i64, "scratch": ptr}
        super().__init__(module, spec.symbol, arguments, target)
        self._places = {name: 8 * place for place, name in enumerate(spec.slots)}
        self._chunk = self.arguments["chunk"]
        self._bound: Mapping[str, Value] = {}

    def bound(self, chunk: Value, /, **slots: Value | int) -> Kernel:
        """This function with another chunk and other contents of some slots: to write a kernel inside of another."""
        other = copy(self)
        other._chunk = chunk
        other._bound = {**self._bound, **{name: self.integer(value) for name, value in slots.items()}}
        return other

    @property
    def chunk(self) -> Value:
        """Which chunk to compute."""
        return self._chunk

    @property
    def scratch(self) -> Value:
        """Memory of this thread."""
        return self.arguments["scratch"]

    def has(self, slot: str) -> bool:
        """Whether the call has this slot."""
        return slot in self._places or slot in self._bound

    def pointer(self, slot: str) -> Value:
        """The address in a slot."""
        if slot in self._bound:
            return self._bound[slot]
        return self.load(ptr, self.arguments["slots"], self._places[slot], align=8)

    def number(self, slot: str) -> Value:
        """The integer in a slot, ``i64``."""
        if slot in self._bound:
            return self._bound[slot]
        return self.load(i64, self.arguments["slots"], self._places[slot], align=8)

    @property
    def work(self) -> Value:
        """The integer in the slot ``work``."""
        return self.number(WORK)

    def span(self, block: Value, grain: int) -> tuple[Value, Value]:
        """Start and end of block number ``block`` when the work is cut into blocks of ``grain``."""
        start = block * grain
        return start, self.minimum(start + grain, self.work)


@dataclass(frozen=True)
class KernelSpec:
    """What determines a kernel, so that equal specs share one.

    Attributes:
        emit: ``emit(k, **constants)`` writes the body, without the final return.
        constants: keyword arguments of ``emit``; hashable, with a ``repr`` that says all.
        slots: names of the call's slots in order, the first of them :data:`WORK`.
    """

    emit: Callable[..., None]
    constants: tuple[tuple[str, Any], ...]
    slots: tuple[str, ...]

    @cached_property
    def recipe(self) -> str:
        """Text that says which kernel it is."""
        constants = ", ".join(f"{key}={_text(value)}" for key, value in self.constants)
        return f"{self.emit.__module__}.{self.emit.__qualname__}({constants}; {', '.join(self.slots)})"

    @cached_property
    def symbol(self) -> str:
        """Name of the compiled function."""
        return f"{self.emit.__name__}_{sha256(self.recipe.encode()).hexdigest()[:16]}"

    def build(self, target: Target) -> ir.Module:
        """The kernel as IR."""
        module = ir.Module(self.symbol)
        module.triple = target.triple
        kernel = Kernel(module, self, target)
        self.emit(kernel, **dict(self.constants))
        kernel.ret()
        return module


def _text(value: Any) -> str:
    """What says all about a constant: functions by their names, everything else by its ``repr``."""
    return f"{value.__module__}.{value.__qualname__}" if callable(value) else repr(value)
