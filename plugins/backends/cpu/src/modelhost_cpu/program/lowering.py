"""The table of lowerings, one for each op."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

from modelhost.api.backend import Node, Operation

from .builder import ProgramBuilder

Lowering = Callable[[ProgramBuilder, Node], None]
_TABLE: dict[str, Lowering] = {}


def lowers(op: Operation[..., Any]) -> Callable[[Lowering], Lowering]:
    """Decorator: the function turns nodes of ``op`` into calls."""

    def register(lowering: Lowering) -> Lowering:
        _TABLE[op.name] = lowering
        return lowering

    return register


@cache
def lowerings() -> dict[str, Lowering]:
    """Every lowering by the op's name, from the modules of :mod:`modelhost_cpu.kernels`."""
    import modelhost_cpu.kernels as kernels

    for module in iter_modules(kernels.__path__):
        import_module(f"{kernels.__name__}.{module.name}")
    return _TABLE
