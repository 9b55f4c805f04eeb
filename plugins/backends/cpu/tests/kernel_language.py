"""Small functions of the kernel language, compiled for a target and called from Python."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from modelhost_cpu.language.types import size_of
from modelhost_cpu.language.value import Value
from modelhost_cpu.machine import Isa, Target, host_target
from modelhost_cpu.native.compiler import Compiler
from modelhost_cpu.native.kernel import Kernel, KernelSpec

from modelhost.api import UnsupportedError

Array = npt.NDArray[Any]
Formula = Callable[..., Value | tuple[Value, ...]]


def targets() -> dict[str, Target]:
    """What tests compile for: the host, lower tiers of it, and ones without single instruction sets."""
    host = host_target()
    found = {"host": host}
    tiers: tuple[Isa, ...] = ("avx512", "avx2", "baseline")
    for isa in tiers:
        try:
            found[isa] = host.limited(isa)
        except UnsupportedError:
            continue
    if host.has("f16c"):
        found["without f16c"] = host.without("f16c")
    if host.has("avx512bf16"):
        found["without avx512bf16"] = host.without("avx512bf16")
    return found


TARGETS = targets()


@cache
def _compiler(name: str) -> Compiler:
    return Compiler(TARGETS[name], None)


def run(
    target: str, emit: Callable[..., None], slots: dict[str, Array | int], chunks: int = 1, **constants: Any
) -> None:
    """Run a kernel: its slots are addresses of arrays, and integers; the first one is ``work``."""
    spec = KernelSpec(emit, tuple(constants.items()), tuple(slots))
    address = _compiler(target).kernels([spec])[spec]
    values = [value if isinstance(value, int) else value.ctypes.data for value in slots.values()]
    memory = np.array(values, np.int64)
    scratch = np.zeros(1 << 16, np.uint8)
    aligned = scratch.ctypes.data + -scratch.ctypes.data % 64
    function = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p)(address)
    for chunk in range(chunks):
        function(memory.ctypes.data, chunk, aligned)


def each(k: Kernel, formula: Formula, types: tuple[ir.Type, ...], parameters: tuple[tuple[str, Any], ...]) -> None:
    """Kernel: a formula over arrays whose elements are of ``types``."""
    with k.loop(0, k.work) as index:
        operands = [k.load(type_, k.pointer(f"x{n}"), index * size_of(type_)) for n, type_ in enumerate(types)]
        results = formula(k, *operands, **dict(parameters))
        for n, result in enumerate(results if isinstance(results, tuple) else (results,)):
            k.store(result, k.pointer(f"y{n}"), index * size_of(result.type))


def apply(
    target: str, formula: Formula, operands: list[tuple[ir.Type, Array]], results: list[Any], **parameters: Any
) -> list[Array]:
    """``formula(k, *values, **parameters)`` for the elements of arrays, or for vectors of consecutive elements.

    Args:
        operands: type of an element or vector, and the array.
        results: dtypes of the results, which have as many elements as the first operand.
    """
    count = operands[0][1].nbytes // size_of(operands[0][0])
    inputs = {f"x{n}": np.ascontiguousarray(array) for n, (_, array) in enumerate(operands)}
    outputs = {f"y{n}": np.zeros(operands[0][1].size, dtype) for n, dtype in enumerate(results)}
    run(
        target,
        each,
        {"work": count, **inputs, **outputs},
        formula=formula,
        types=tuple(type_ for type_, _ in operands),
        parameters=tuple(parameters.items()),
    )
    return list(outputs.values())
