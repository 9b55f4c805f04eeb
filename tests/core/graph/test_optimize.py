"""All passes together compute the same as the graph they are given."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from modelhost.api.model import trace
from modelhost.graph import ops
from modelhost.graph.graph import Graph
from modelhost.graph.operation import Operation
from modelhost.graph.passes import fuse_residual_norm, lower, merge_projections, optimize, remove_dead_code
from modelhost.reference import ReferenceBackend
from modelhost.testing.arrays import RandomWeights
from modelhost.testing.paged_steps import Chunk, PagedSteps
from modelhost.testing.small_decoder import VARIANTS, SmallDecoder, Variant

PAGING = PagedSteps(vocabulary=Variant.vocabulary)
STEPS = ((Chunk(0, 0, 9), Chunk(1, 0, 1)), (Chunk(0, 9, 10), Chunk(2, 0, 13), Chunk(1, 1, 6)))


def _results(graph: Graph) -> list[np.ndarray]:
    executable = ReferenceBackend().compile(graph, RandomWeights(), PAGING.layout(graph))
    return [executable.run(PAGING.inputs(graph, chunks))["logits"] for chunks in STEPS]


def _without(*missing: Operation[..., Any]) -> Callable[[Graph], Graph]:
    return lambda graph: lower(graph, native=lambda op: op not in missing, backend="toy")


PASSES: dict[str, Callable[[Graph], Graph]] = {
    "merge": lambda graph: merge_projections(graph, RandomWeights().encoding_of),
    "fuse": fuse_residual_norm,
    "dead code": remove_dead_code,
    "lower": _without(ops.gated_activation),
    "fuse and lower": lambda graph: _without(ops.add_rms_norm)(fuse_residual_norm(graph)),
    "all": lambda graph: optimize(
        graph, native=lambda op: op is not ops.gated_activation, encoding_of=lambda parameter: "f32", backend="toy"
    ),
}


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: variant.name)
@pytest.mark.parametrize("name", PASSES)
def test_a_pass_keeps_the_results(name: str, variant: Variant) -> None:
    graph = trace(SmallDecoder(variant), "float32")
    for got, wanted in zip(_results(PASSES[name](graph)), _results(graph), strict=True):
        # A merged projection is another matrix to BLAS, which may sum its rows in another order.
        np.testing.assert_allclose(got, wanted, rtol=0, atol=2e-6 if name in {"merge", "all"} else 0)


def test_what_is_left_of_a_decoder_layer() -> None:
    graph = trace(SmallDecoder(VARIANTS[0]), "float32")
    names = [node.op.name for node in optimize(graph, native=lambda op: True, encoding_of=str, backend="toy").nodes]
    assert names.count("linear") == 2 * 7 + 1
    same = optimize(graph, native=lambda op: True, encoding_of=lambda parameter: "f32", backend="toy")
    names = [node.op.name for node in same.nodes]
    assert names.count("linear") == 2 * 4 + 1
    assert names.count("add_rms_norm") == 3
    assert names.count("rope_table") == 1


def test_tied_embeddings_stay_one_parameter() -> None:
    graph = trace(SmallDecoder(VARIANTS[1]), "float32")
    merged = optimize(graph, native=lambda op: True, encoding_of=lambda parameter: "f32", backend="toy")
    assert [name for name in merged.parameters if name.startswith("embedding")] == ["embedding.weight"]
    assert merged.uses()[merged.parameters["embedding.weight"]] == 2
