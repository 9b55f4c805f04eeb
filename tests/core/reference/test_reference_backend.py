"""The reference backend as an object."""

from __future__ import annotations

import numpy as np
import pytest

from modelhost.api import GraphError, UnsupportedError
from modelhost.api.backend import CacheLayout
from modelhost.graph import ops
from modelhost.graph.graph import Graph
from modelhost.graph.operation import tracing
from modelhost.graph.tensor import Parameter, Symbol, Tensor
from modelhost.reference import ReferenceBackend
from modelhost.testing.arrays import RandomWeights

T = Symbol("T")


def _graph() -> Graph:
    ids = Tensor("int32", (T,), "ids")
    graph = Graph("forward", {"ids": ids})
    with tracing(graph):
        graph.outputs = {"out": ops.embed(ids, Parameter((5, 3), name="table"))}
    return graph


@pytest.mark.parametrize(("device", "dtype"), [("cuda", "float32"), ("cpu", "bfloat16")])
def test_other_devices_and_dtypes(device: str, dtype: str) -> None:
    with pytest.raises(UnsupportedError) as error:
        ReferenceBackend(device=device, dtype=dtype)  # type: ignore[arg-type]
    assert str(error.value) == f"the reference backend runs on cpu in float32 only, not on {device} in {dtype}"


def test_a_missing_input() -> None:
    executable = ReferenceBackend().compile(_graph(), RandomWeights(), CacheLayout(4, {}))
    with pytest.raises(GraphError, match=r"^graph 'forward' needs input 'ids'; given: \['tokens'\]$"):
        executable.run({"tokens": np.zeros(3, np.int32)})


def test_weights_in_memory() -> None:
    executable = ReferenceBackend().compile(_graph(), RandomWeights(), CacheLayout(4, {}))
    assert executable.weight_bytes == 5 * 3 * 4


def test_split_into_one_piece_is_the_tensor_itself() -> None:
    ids = Tensor("int32", (T,), "ids")
    graph = Graph("forward", {"ids": ids})
    with tracing(graph):
        (piece,) = ops.split(ops.embed(ids, Parameter((5, 3), name="table")), sizes=(3,))
        graph.outputs = {"out": piece}
    executable = ReferenceBackend().compile(graph, RandomWeights(), CacheLayout(4, {}))
    assert executable.run({"ids": np.arange(2, dtype=np.int32)})["out"].shape == (2, 3)


def test_a_kernel_of_a_subclass() -> None:
    class Doubled(ReferenceBackend):
        name = "doubled"
        kernels = {**ReferenceBackend.kernels, "embed": lambda ids, table, *, dtype: 2 * table[ids]}  # noqa: RUF012

    inputs = {"ids": np.arange(2, dtype=np.int32)}
    plain, doubled = (
        backend.compile(_graph(), RandomWeights(), CacheLayout(4, {})).run(inputs)["out"]
        for backend in (ReferenceBackend(), Doubled())
    )
    assert np.array_equal(doubled, 2 * plain)
    with pytest.raises(UnsupportedError, match=r"^the doubled backend runs on cpu in float32 only, not on cuda"):
        Doubled(device="cuda")
