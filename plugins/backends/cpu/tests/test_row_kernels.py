"""Kernels of rows and of sequences in the sizes of real models, which fill many vectors and many chunks.

The conformance kit has the odd small ones.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pytest
from modelhost_cpu.backend import CpuBackend
from modelhost_cpu.kernels.rope_table import dynamic_frequencies
from modelhost_cpu.settings import CpuSettings

from modelhost.api import UnsupportedError
from modelhost.api.backend import RecurrentSpec, State, Tensor
from modelhost.api.reference import ReferenceBackend
from modelhost.graph import ops
from modelhost.testing.arrays import RandomWeights, require_close
from modelhost.testing.op_cases import OpCase, Operands, Outputs
from modelhost.testing.paged_steps import Chunk, PagedSteps

Results = dict[str, npt.NDArray[np.float32]]
TOKENS = 150
PAGING = PagedSteps(vocabulary=64, context=256, block_size=16)
FREQUENCIES = tuple(10000.0 ** (-pair / 32) for pair in range(32))


def _norm(o: Operands) -> Outputs:
    total, normed = ops.add_rms_norm(o.activation(1000), o.activation(1000), o.parameter(1000), eps=1e-6)
    return total, normed, ops.rms_norm(total, None, eps=1e-5)


def _layer_norm(o: Operands) -> Outputs:
    return ops.layer_norm(o.activation(1000), o.parameter(1000), o.parameter(1000), eps=1e-5)


def _head_norm_of_a_piece(o: Operands) -> Outputs:
    query, _, key = ops.split(o.activation(1088), sizes=(768, 64, 256))
    shape = o.step.shape
    heads = ops.reshape(query, shape=shape(6, 128)), ops.reshape(key, shape=shape(2, 128))
    return tuple(ops.rms_norm(x, o.parameter(128), eps=1e-6, weight_offset=1.0) for x in heads)


def _rope(o: Operands, *, interleaved: bool) -> Outputs:
    table = ops.rope_table(o.step.positions, frequencies=FREQUENCIES, scale=1.1)
    query, key = ops.split(o.activation(1152), sizes=(864, 288))
    shape = o.step.shape
    heads = ops.reshape(query, shape=shape(9, 96)), ops.reshape(key, shape=shape(3, 96))
    return tuple(ops.rope(x, table, interleaved=interleaved) for x in heads)


def _gated(o: Operands) -> Outputs:
    gate, up = ops.split(ops.scale(o.activation(4000), factor=3.0), sizes=(2000, 2000))
    gated = ops.gated_activation(ops.clamp(gate, low=-4.0), up, kind="gelu_tanh")
    return gated, ops.soft_cap(gate, cap=2.0), ops.scale_rows(up, o.activation(1)), ops.activation(up, kind="softplus")


def _route(o: Operands) -> Outputs:
    logits, bias = o.activation(160), o.parameter(160)
    grouped = ops.route(
        logits,
        bias,
        top_k=8,
        scoring="sigmoid",
        groups=8,
        top_groups=4,
        group_score="top2_sum",
        renormalize=True,
        scale=2.5,
    )
    return *grouped, *ops.route(logits, None, top_k=8, renormalize=True)


def _indices(o: Operands, state: State) -> tuple[Tensor, ...]:
    step = o.step
    return step.read_slots(state), step.write_slots(state), step.sequence_starts, step.context_lengths


def _convolution(o: Operands) -> Outputs:
    state = o.state(RecurrentSpec((3, 600)))
    x, weight, bias = o.activation(600), o.parameter(600, 4), o.parameter(600)
    return ops.causal_convolution(x, weight, bias, state, *_indices(o, state), activation="silu")


def _delta_rule(o: Operands, *, by_row: bool) -> Outputs:
    state = o.state(RecurrentSpec((4, 128, 96)))
    query, key = (ops.scale(o.activation(2, 128), factor=0.5) for _ in range(2))
    raw = ops.cast(o.activation(*((4, 128) if by_row else (4,))), dtype="float32")
    decay = ops.decay_gate(raw, o.parameter(4), o.parameter(4 * 128 if by_row else 4))
    beta = ops.activation(ops.cast(o.activation(4), dtype="float32"), kind="sigmoid")
    return ops.gated_delta_rule(query, key, o.activation(4, 96), decay, beta, state, *_indices(o, state), scale=0.1)


def _streams(o: Operands) -> Outputs:
    projected = ops.scale(o.activation(24), factor=2.0)
    weights = ops.stream_weights(projected, o.parameter(3), o.parameter(24), streams=4, iterations=20, eps=1e-6)
    x = o.activation(4, 700)
    return *weights, ops.mix_streams(x, weights[0]), ops.mix_streams(x, weights[2])


CASES: dict[str, Callable[[Operands], Outputs]] = {
    "norm": _norm,
    "layer norm": _layer_norm,
    "head norm of a piece": _head_norm_of_a_piece,
    "rope of halves": partial(_rope, interleaved=False),
    "rope of neighbours": partial(_rope, interleaved=True),
    "gated activation": _gated,
    "route": _route,
    "convolution": _convolution,
    "delta rule": partial(_delta_rule, by_row=False),
    "delta rule, a decay for each row": partial(_delta_rule, by_row=True),
    "streams": _streams,
}
CUTS = ([0, TOKENS], [0, 1, 2, 40, 41, TOKENS], [0, 100, TOKENS])


def _case(name: str) -> OpCase:
    return OpCase(ops.add, name, CASES[name], paging=PAGING)


def _run(name: str, threads: int, cuts: list[int], other: int = 0) -> Results:
    """All rows of sequence 0, cut into steps, in the company of ``other`` tokens of sequence 1."""
    graph = _case(name).graph("float32")
    executable = CpuBackend(dtype="float32", settings=CpuSettings(threads=threads)).compile(
        graph, RandomWeights(), PAGING.layout(graph)
    )
    parts: dict[str, list[npt.NDArray[np.float32]]] = {}
    for place, (start, end) in enumerate(pairwise(cuts)):
        company = (Chunk(1, place * other, (place + 1) * other),) if other else ()
        results = executable.run(PAGING.inputs(graph, (*company, Chunk(0, start, end))))
        for key, rows in results.items():
            parts.setdefault(key, []).append(rows[other:])
    return {key: np.concatenate(rows) for key, rows in parts.items()}


@cache
def _whole(name: str) -> Results:
    return _run(name, 2, [0, TOKENS])


@pytest.mark.parametrize("name", CASES)
def test_against_the_reference(name: str) -> None:
    graph = _case(name).graph("float32")
    reference = ReferenceBackend().compile(graph, RandomWeights(), PAGING.layout(graph))
    wanted = reference.run(PAGING.inputs(graph, (Chunk(0, 0, TOKENS),)))
    require_close(_whole(name), wanted, 4e-6, name)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize(("threads", "cuts", "other"), [(1, CUTS[0], 0), (3, CUTS[1], 7), (2, CUTS[2], 33)])
def test_company_and_threads_change_no_bit(name: str, threads: int, cuts: list[int], other: int) -> None:
    require_close(_run(name, threads, cuts, other), _whole(name), 0.0, name)


def test_routing_by_nan_gives_experts_that_exist() -> None:
    def build(o: Operands) -> Outputs:
        logits = ops.scale(o.activation(20), factor=float("nan"))
        return ops.route(logits, None, top_k=3, scoring="sigmoid", groups=5, top_groups=2)[1]

    graph = OpCase(ops.route, "NaN", build, paging=PAGING).graph("float32")
    executable = CpuBackend(dtype="float32").compile(graph, RandomWeights(), PAGING.layout(graph))
    (experts,) = executable.run(PAGING.inputs(graph, (Chunk(0, 0, 9),))).values()
    assert ((experts >= 0) & (experts < 20)).all()


def test_dynamic_frequencies_are_those_of_the_reference() -> None:
    lengths = np.array([16, 17, 1000], np.int32)
    got = dynamic_frequencies(lengths, base=10000.0, dimensions=64, factor=2.0, original_length=16)
    plain = (1.0 / 10000.0 ** (np.arange(0, 64, 2) / 64)).astype(np.float32)
    np.testing.assert_array_equal(got[0], plain)
    assert (got[1:, 1:] < plain[1:]).all()
    assert (got[1:, 0] == 1).all()


def test_lengths_that_are_no_input_are_refused() -> None:
    def build(o: Operands) -> Outputs:
        numbers = ops.take_rows(o.step.lengths, o.step.logit_rows)
        return ops.rope_table_dynamic(numbers, numbers, base=1e4, dimensions=6, factor=2.0, original_length=16)

    graph = OpCase(ops.rope_table_dynamic, "", build, paging=PAGING).graph("float32")
    with pytest.raises(UnsupportedError, match="takes lengths from an input"):
        CpuBackend(dtype="float32").compile(graph, RandomWeights(), PAGING.layout(graph))
