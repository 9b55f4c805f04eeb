"""Projections of their own for every head, against float64."""

from __future__ import annotations

import numpy as np
import pytest
from modelhost_cpu.backend import CpuBackend
from modelhost_cpu.settings import CpuSettings

from modelhost.api.backend import CacheLayout, Graph, Parameter, Weight
from modelhost.api.step import Step
from modelhost.graph import ops
from modelhost.testing.graphs import tracing

from .quantized_weights import random_weight
from .test_linear_int8 import rows_of

TOKENS = 11


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("transpose", [False, True])
@pytest.mark.parametrize(
    ("encoding", "heads", "stored", "rows", "columns"),
    [
        ("f32", 3, 7, (2, 6), 5),
        ("bf16", 2, 24, (3, 20), 301),
        ("f16", 1, 1, (0, 1), 1),
        ("q8_0", 2, 32, (0, 16), 64),
        ("q5_0", 3, 20, (13, 20), 288),
        ("q4_k", 2, 40, (16, 40), 512),
    ],
)
def test_against_float64(
    encoding: str, heads: int, stored: int, rows: tuple[int, int], columns: int, transpose: bool, threads: int
) -> None:
    weight = random_weight(encoding, heads * stored, columns)
    used = weight.dequantize().reshape(heads, stored, columns)[:, rows[0] : rows[1]].astype(np.float64)
    size = rows[1] - rows[0] if transpose else columns
    table = rows_of(TOKENS, heads * size)
    graph = Graph("heads")
    with tracing(graph):
        step = Step(graph, "bfloat16")
        flat = ops.embed(step.token_ids, Parameter(table.shape, name="table"), dtype="bfloat16")
        x = ops.reshape(flat, shape=step.shape(heads, size))
        y = ops.head_linear(x, Parameter(weight.shape, name="weight"), rows=rows, transpose=transpose)
        graph.outputs = {"y": y}
    weights = {"table": Weight.of_values("table", table), "weight": weight}
    backend = CpuBackend(dtype="bfloat16", settings=CpuSettings(threads=threads))
    executable = backend.compile(graph, lambda parameter: weights[parameter.name], CacheLayout(16, {}))
    numbers = np.arange(TOKENS, dtype=np.int32)
    got = executable.run(dict.fromkeys(graph.inputs, numbers))["y"]
    wanted = np.einsum("thn,hnc->thc" if transpose else "thc,hnc->thn", table.reshape(TOKENS, heads, size), used)
    np.testing.assert_allclose(got, wanted, rtol=0, atol=3e-6 * np.abs(wanted).max())
    for token in (0, 10):
        alone = executable.run(dict.fromkeys(graph.inputs, numbers[token : token + 1]))["y"]
        np.testing.assert_array_equal(alone[0], got[token])
