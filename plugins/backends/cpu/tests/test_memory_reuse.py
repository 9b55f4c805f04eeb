"""Results take the memory of operands that nothing needs any more, and of no others."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from modelhost_cpu.backend import CpuBackend
from modelhost_cpu.machine import host_target
from modelhost_cpu.program.builder import Options, Program, ProgramBuilder
from modelhost_cpu.program.lowering import lowerings
from modelhost_cpu.settings import CpuSettings

from modelhost.api.backend import DType, Graph
from modelhost.api.reference import ReferenceBackend
from modelhost.graph import ops
from modelhost.testing.arrays import RandomWeights, require_close
from modelhost.testing.op_cases import OpCase, Operands, Outputs
from modelhost.testing.paged_steps import Chunk, PagedSteps

PAGING = PagedSteps(vocabulary=64)
WIDTH = 96
ENCODINGS = {"first": "q8_0", "second": "q8_0"}


def _operand_used_later(o: Operands) -> Outputs:
    x = o.activation(WIDTH)
    y = ops.activation(x, kind="silu")
    return ops.add(y, x)


def _operand_is_a_result(o: Operands) -> Outputs:
    x = o.activation(WIDTH)
    return x, ops.scale(x, factor=2.0), ops.rms_norm(x, None, eps=1e-6)


def _operand_has_another_name(o: Operands) -> Outputs:
    x = o.activation(WIDTH)
    same, heads = ops.cast(x, dtype="float32"), ops.reshape(x, shape=o.step.shape(3, 32))
    y = ops.scale(x, factor=3.0)
    return y, ops.scale(same, factor=0.5), ops.rms_norm(heads, None, eps=1e-6)


def _other_part_is_used_later(o: Operands) -> Outputs:
    gate, up = ops.split(o.activation(2 * WIDTH), sizes=(WIDTH, WIDTH))
    return ops.add(ops.multiply(up, gate), up)


def _whole_is_used_later(o: Operands) -> Outputs:
    both = o.activation(2 * WIDTH)
    gate, up = ops.split(both, sizes=(WIDTH, WIDTH))
    return ops.gated_activation(gate, up, kind="silu"), ops.scale(both, factor=2.0)


def _twice_the_same(o: Operands) -> Outputs:
    x = ops.add(y := o.activation(WIDTH), y)
    return ops.multiply(x, x)


def _residuals(o: Operands) -> Outputs:
    x = o.activation(WIDTH)
    for _ in range(3):
        branch = ops.linear(x, o.parameter(WIDTH, WIDTH), None)
        x, normed = ops.add_rms_norm(branch, x, o.parameter(WIDTH), eps=1e-6)
        x = ops.add(x, ops.linear(normed, o.parameter(WIDTH, WIDTH), None))
    return x, ops.layer_norm(x, None, None, eps=1e-5)


def _rows_quantised_before(o: Operands) -> Outputs:
    """The norm takes the place of the rows that a projection has made its own copy of."""
    x = o.activation(WIDTH)
    first = ops.linear(x, o.parameter(WIDTH, WIDTH, name="first"), None)
    normed = ops.rms_norm(ops.scale(x, factor=4.0), None, eps=1e-6)
    return first, ops.linear(normed, o.parameter(WIDTH, WIDTH, name="second"), None)


def _turned_in_place(o: Operands) -> Outputs:
    table = ops.rope_table(o.step.positions, frequencies=tuple(0.5**pair for pair in range(10)))
    query, key = ops.split(o.activation(2 * WIDTH), sizes=(WIDTH, WIDTH))
    shape = o.step.shape(3, 32)
    turned = ops.rope(ops.reshape(query, shape=shape), table), ops.rope(ops.reshape(key, shape=shape), table)
    rows = o.step.shape(WIDTH)
    return *(ops.reshape(x, shape=rows) for x in turned), ops.scale_rows(turned[0], o.activation(3, 1))


CASES: dict[str, Callable[[Operands], Outputs]] = {
    "operand used later": _operand_used_later,
    "operand is a result": _operand_is_a_result,
    "operand has another name": _operand_has_another_name,
    "other part is used later": _other_part_is_used_later,
    "whole is used later": _whole_is_used_later,
    "twice the same": _twice_the_same,
    "residuals": _residuals,
    "rows quantised before": _rows_quantised_before,
    "turned in place": _turned_in_place,
}


@pytest.mark.parametrize("dtype", ("float32", "bfloat16"))
@pytest.mark.parametrize("name", CASES)
def test_results(name: str, dtype: DType) -> None:
    graph = OpCase(ops.add, name, CASES[name], paging=PAGING).graph(dtype)
    layout = PAGING.layout(graph)
    executable = CpuBackend(dtype=dtype, settings=CpuSettings(threads=2)).compile(
        graph, RandomWeights(ENCODINGS), layout
    )
    reference = ReferenceBackend().compile(graph, RandomWeights(ENCODINGS), layout)
    tolerance = 2e-5 if dtype == "float32" else 4e-2
    for chunks in ((Chunk(0, 0, 1),), (Chunk(0, 1, 40), Chunk(1, 0, 9))):
        inputs = PAGING.inputs(graph, chunks)
        require_close(executable.run(inputs), reference.run(inputs), tolerance, name)


def _program(build: Callable[[Operands], Outputs]) -> tuple[Graph, Program]:
    graph = OpCase(ops.add, "", build, paging=PAGING).graph("float32")
    return graph, ProgramBuilder(graph, Options(host_target(), exact=True)).build(lowerings())


def test_a_chain_of_rows_lies_where_its_result_does() -> None:
    def chain(o: Operands) -> Outputs:
        x = o.activation(WIDTH)
        for _ in range(5):
            x = ops.activation(ops.rms_norm(ops.scale(x, factor=2.0), None, eps=1e-6), kind="gelu")
        return x

    _, program = _program(chain)
    assert program.unit_bytes == {}
    assert [view.slot.base for view in program.outputs.values()] == [f"output.{name}" for name in program.outputs]


def test_a_result_that_is_needed_has_memory_of_its_own() -> None:
    _, program = _program(_operand_is_a_result)
    assert program.unit_bytes == {}
    assert len(program.outputs) == len({view.slot.base for view in program.outputs.values()}) == 3
