"""Every kernel can be generated for CPUs that this machine is not, and calls nothing that such a CPU lacks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pytest
from modelhost_cpu.encodings.registry import packing_for, packings
from modelhost_cpu.language.types import f32
from modelhost_cpu.logits import KERNELS
from modelhost_cpu.machine import Isa, Target, aarch64_target, host_target
from modelhost_cpu.native.compiler import emit_object
from modelhost_cpu.native.driver import build_driver
from modelhost_cpu.native.kernel import Kernel, KernelSpec
from modelhost_cpu.program.builder import Options, Program, ProgramBuilder
from modelhost_cpu.program.lowering import lowerings
from modelhost_cpu.weights import StoredWeight, pack_groups

from modelhost.api.backend import Graph, Parameter
from modelhost.api.model import trace
from modelhost.api.step import Step
from modelhost.graph import ops
from modelhost.testing.graphs import lower, optimize, tracing
from modelhost.testing.op_cases import op_cases
from modelhost.testing.small_decoder import VARIANTS, SmallDecoder, Variant

from .elf import AARCH64, X86_64, machine_of, undefined_symbols

C_LIBRARY = {"memcpy", "memset", "memmove"}
"""What kernels may call: LLVM makes them of loops that copy."""
SYSTEM = {"syscall", "sched_yield", "usleep"}
"""What the driver may call besides."""


def _targets() -> dict[str, Target]:
    found = {
        "aarch64": aarch64_target(),
        "aarch64 with dot products": aarch64_target("dotprod", "fullfp16", "bf16", "i8mm"),
    }
    host = host_target()
    if host.is_x86 and "linux" in host.triple:
        tiers: tuple[Isa, ...] = ("baseline", "avx2")
        found |= {isa: host.limited(isa) for isa in tiers if isa == "baseline" or host.has("avx2", "fma", "f16c")}
    return found


TARGETS = _targets()


def _marked(*often: str) -> pytest.MarkDecorator:
    """All targets, of which only ``often`` are not slow."""
    marked = [pytest.param(name, marks=() if name in often else pytest.mark.slow) for name in TARGETS]
    return pytest.mark.parametrize("target", marked)


targets = _marked("aarch64", "baseline")
exactness = pytest.mark.parametrize("exact", (True, False), ids=("exact", "fast"))
_CHECKED: set[tuple[Target, KernelSpec]] = set()


def _stored(parameter: Parameter, encoding: str, exact: bool) -> StoredWeight:
    """A weight that nothing is read from."""
    plain = len(parameter.sizes) < 2 or parameter.dtype == "int32"
    return StoredWeight(parameter.sizes, None if plain else packing_for(encoding, exact), np.zeros(0, np.uint8), 0)


def _program(graph: Graph, target: Target, exact: bool, encoding: str = "f32") -> Program:
    weights = {name: _stored(parameter, encoding, exact) for name, parameter in graph.parameters.items()}
    states = dict.fromkeys(graph.states, (0, 0))
    return ProgramBuilder(graph, Options(target, exact=exact), weights, states).build(lowerings())


def _decoder(variant: Variant, exact: bool) -> Graph:
    graph = trace(SmallDecoder(variant), "float32" if exact else "bfloat16")
    native = lowerings()
    return optimize(graph, native=lambda op: op.name in native, encoding_of=lambda _: "f32", backend="cpu")


def _op_graphs(exact: bool) -> Iterator[Graph]:
    native = lowerings()
    for case in op_cases():
        yield lower(case.graph("float32" if exact else "bfloat16"), native=lambda op: op.name in native, backend="cpu")


def _specs(programs: Iterable[Program]) -> set[KernelSpec]:
    return {call.spec for program in programs for call in program.calls}


def _require_portable(specs: set[KernelSpec], target: Target) -> None:
    """Generate code for those kernels that no test has generated for this target before."""
    assert specs
    for spec in specs:
        if (target, spec) in _CHECKED:
            continue
        content = emit_object(spec.build(target), target)
        assert machine_of(content) == (X86_64 if target.is_x86 else AARCH64)
        assert undefined_symbols(content) <= C_LIBRARY, spec.recipe
        _CHECKED.add((target, spec))


@exactness
@targets
def test_decoders(target: str, exact: bool) -> None:
    programs = [_program(_decoder(variant, exact), TARGETS[target], exact) for variant in VARIANTS]
    _require_portable(_specs(programs), TARGETS[target])


@pytest.mark.slow
@exactness
@targets
def test_every_op(target: str, exact: bool) -> None:
    programs = [_program(graph, TARGETS[target], exact) for graph in _op_graphs(exact)]
    _require_portable(_specs(programs), TARGETS[target])


def _projection() -> Graph:
    """A table and a projection of rows as wide as two of the largest blocks."""
    graph = Graph("projection")
    with tracing(graph):
        step = Step(graph, "bfloat16")
        rows = ops.embed(step.token_ids, Parameter((64, 512), name="table"), dtype="bfloat16")
        graph.outputs = {"y": ops.linear(rows, Parameter((40, 512), name="weight"), None)}
    return graph


@_marked("aarch64")
def test_every_encoding(target: str) -> None:
    graph, slots = _projection(), ("work", "rows", "destination", "bad")
    programs = [_program(graph, TARGETS[target], exact, name) for name in packings() for exact in (True, False)]
    loading = {
        KernelSpec(pack_groups, (("packing", packing), ("source", name), ("columns", 512)), slots)
        for name, packing in packings().items()
    }
    _require_portable(_specs(programs) | loading, TARGETS[target])


@targets
def test_sampling(target: str) -> None:
    _require_portable(set(KERNELS), TARGETS[target])


@targets
def test_driver(target: str) -> None:
    content = emit_object(build_driver(TARGETS[target]), TARGETS[target])
    assert undefined_symbols(content) <= SYSTEM | C_LIBRARY


def misspelt(k: Kernel) -> None:
    k.store(k.call("llvm.aarch64.neon.misspelt", f32, k.load(f32, k.scratch)), k.scratch)


def test_what_is_not_there_is_seen() -> None:
    with pytest.raises(AssertionError, match="misspelt"):
        _require_portable({KernelSpec(misspelt, (), ("work",))}, aarch64_target())
