"""What the ops of recurrent layers say about operands that do not fit them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from modelhost.api import GraphError
from modelhost.graph import ops
from modelhost.graph.cache import CacheSpec, RecurrentSpec
from modelhost.graph.graph import Graph
from modelhost.graph.operation import tracing
from modelhost.graph.tensor import Parameter, State, Symbol, Tensor

T, B = Symbol("T"), Symbol("B")
X = Tensor("float32", (T, 6))
SLOTS, STARTS, CONTEXTS = Tensor("int32", (B,)), Tensor("int32", (B + 1,)), Tensor("int32", (B,))
INDICES = (SLOTS, SLOTS, STARTS, CONTEXTS)
CONVOLUTION = State("conv", RecurrentSpec((3, 6)))
STATE = State("state", RecurrentSpec((4, 3, 5)))
KEY, VALUE, BETA = Tensor("float32", (T, 2, 3)), Tensor("float32", (T, 4, 5)), Tensor("float32", (T, 4))


def convolve(weight: Any = None, bias: Any = None, state: State = CONVOLUTION, indices: Any = INDICES) -> Any:
    return ops.causal_convolution(X, weight or Parameter((6, 4)), bias, state, *indices)


def delta(
    key: Tensor = KEY, value: Tensor = VALUE, decay: Tensor = BETA, beta: Tensor = BETA, **attributes: Any
) -> Any:
    return ops.gated_delta_rule(KEY, key, value, decay, beta, STATE, *INDICES, scale=1.0, **attributes)


ERRORS: dict[str, tuple[Callable[[], Any], str]] = {
    "a paged cache": (
        lambda: convolve(state=State("cache", CacheSpec(1, 2, 2))),
        "causal_convolution: state must be recurrent, not a paged cache",
    ),
    "another number of channels": (
        lambda: convolve(weight=Parameter((5, 4))),
        "causal_convolution: weight must be [6, width]",
    ),
    "a state of another width": (
        lambda: convolve(weight=Parameter((6, 3))),
        "causal_convolution: state must be (width - 1, channels)",
    ),
    "a short bias": (lambda: convolve(bias=Parameter((4,))), "causal_convolution: bias must have 6 values"),
    "slots for other sequences": (
        lambda: convolve(indices=(SLOTS, Tensor("int32", (T,)), STARTS, CONTEXTS)),
        "causal_convolution: slots must be [B]",
    ),
    "starts without an end": (
        lambda: convolve(indices=(SLOTS, SLOTS, SLOTS, CONTEXTS)),
        "causal_convolution: sequence_starts must be [B+1]",
    ),
    "a bias for each head only": (
        lambda: ops.decay_gate(KEY, Parameter((2,)), Parameter((2,))),
        "decay_gate: bias must have 6 values",
    ),
    "a rate too many": (
        lambda: ops.decay_gate(X, Parameter((7,)), Parameter((6,))),
        "decay_gate: log_rate must have 6 values",
    ),
    "heads that do not divide": (
        lambda: delta(value=Tensor("float32", (T, 3, 5))),
        "gated_delta_rule: 3 value heads do not divide among 2 key heads",
    ),
    "keys unlike queries": (
        lambda: delta(key=Tensor("float32", (T, 2, 4))),
        "gated_delta_rule: query and key must have the same shape",
    ),
    "a state of another size": (
        lambda: delta(value=Tensor("float32", (T, 4, 6))),
        "gated_delta_rule: state must be (4, 3, 6)",
    ),
    "a decay for each value": (
        lambda: delta(decay=Tensor("float32", (T, 4, 5))),
        "gated_delta_rule: decay must be [T, H] or [T, H, key_dim]",
    ),
    "a narrow decay": (
        lambda: delta(decay=Tensor("bfloat16", (T, 4))),
        "gated_delta_rule: beta must be [T, H], decay float32",
    ),
    "an unknown order": (
        lambda: delta(key_heads="sorted"),
        "gated_delta_rule: key_heads must be 'grouped' or 'tiled', got 'sorted'",
    ),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors(name: str) -> None:
    apply, message = ERRORS[name]
    with tracing(Graph("test")), pytest.raises(GraphError) as error:
        apply()
    assert str(error.value).partition("; operands: ")[0] == message


def test_results() -> None:
    with tracing(Graph("test")) as graph:
        assert convolve().shape == (T, 6)
        assert delta().shape == delta(decay=Tensor("float32", (T, 4, 3))).shape == (T, 4, 5)
        assert ops.decay_gate(Tensor("bfloat16", (T, 2, 3)), Parameter((2,)), Parameter((6,))).dtype == "float32"
    assert [node.op.effect for node in graph.nodes] == [True, True, True, False]
