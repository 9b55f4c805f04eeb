"""Symbolic dimensions and their values in a step."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelhost.api import GraphError
from modelhost.graph.graph import Graph
from modelhost.graph.sizes import bind_symbols
from modelhost.graph.tensor import Symbol, Tensor, evaluate

B = Symbol("B")


@pytest.mark.parametrize(
    ("symbol", "text"),
    [(B, "B"), (B + 1, "B+1"), (B + -2, "B-2"), (B * 2, "2*B"), ((B + 1) * 3, "3*B+3"), (B * 2 + 1, "2*B+1")],
)
def test_text(symbol: Symbol, text: str) -> None:
    assert str(symbol) == repr(symbol) == text


@given(st.integers(0, 50), st.integers(1, 5), st.integers(0, 5), st.integers(0, 5))
def test_arithmetic(value: int, scale: int, before: int, after: int) -> None:
    assert evaluate((B + before) * scale + after, {"B": value}) == (value + before) * scale + after


def test_an_unknown_symbol() -> None:
    with pytest.raises(GraphError) as error:
        evaluate(B + 1, {"T": 3, "S": 1})
    assert str(error.value) == "the size of symbol 'B' was not given; known: ['S', 'T']"


def test_bytes() -> None:
    assert Tensor("bfloat16", (B + 1, 3)).nbytes({"B": 4}) == 30
    assert Tensor("int32", ()).nbytes({}) == 4


def _graph() -> Graph:
    tensors = [Tensor("int32", (B + 1,), "starts"), Tensor("int32", (B,), "lengths"), Tensor("int32", (B, 2), "pairs")]
    return Graph("forward", {tensor.name: tensor for tensor in tensors})


def _inputs(starts: int, lengths: int, *pairs: int) -> dict[str, np.ndarray]:
    shapes = {"starts": (starts,), "lengths": (lengths,), "pairs": pairs}
    return {name: np.zeros(shape, np.int32) for name, shape in shapes.items()}


def test_binding() -> None:
    assert bind_symbols(_graph(), _inputs(4, 3, 3, 2)) == {"B": 3}
    assert bind_symbols(_graph(), _inputs(1, 0, 0, 2)) == {"B": 0}


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        (_inputs(4, 4, 4, 2), "input 'lengths' must be lengths: int32[B] with {'B': 3}, got shape (4,)"),
        (_inputs(4, 3, 3, 5), "input 'pairs' must be pairs: int32[B, 2] with {'B': 3}, got shape (3, 5)"),
        (_inputs(4, 3, 3), "input 'pairs' must be pairs: int32[B, 2], got shape (3,)"),
    ],
)
def test_inputs_that_disagree(inputs: dict[str, np.ndarray], message: str) -> None:
    with pytest.raises(GraphError) as error:
        bind_symbols(_graph(), inputs)
    assert str(error.value) == message


def test_a_missing_input() -> None:
    inputs = _inputs(4, 3, 3, 2)
    del inputs["lengths"]
    with pytest.raises(GraphError) as error:
        bind_symbols(_graph(), inputs)
    assert str(error.value) == "graph 'forward' needs input 'lengths'; given: ['pairs', 'starts']"
