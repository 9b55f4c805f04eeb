"""What ops say about operands that do not fit them."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import pytest

from modelhost.api import GraphError
from modelhost.graph import ops
from modelhost.graph.cache import CacheSpec
from modelhost.graph.graph import Graph
from modelhost.graph.operation import tracing
from modelhost.graph.tensor import Parameter, State, Symbol, Tensor

T, B = Symbol("T"), Symbol("B")
X = Tensor("float32", (T, 8), "x")
HALF = Tensor("bfloat16", (T, 8), "half")
IDS = Tensor("int32", (T,), "ids")
HEADS = Tensor("float32", (T, 6, 4), "q")
KEYS = Tensor("float32", (T, 2, 4), "k")
W = Parameter((4, 8), name="w")
SPEC = CacheSpec(2, 4, 4)
CACHE = State("cache", SPEC)
TABLE = Tensor("int32", (B, Symbol("blocks")), "table")
STARTS = Tensor("int32", (B + 1,), "starts")
CONTEXTS = Tensor("int32", (B,), "contexts")

ERRORS: dict[str, tuple[Callable[[], Any], str]] = {
    "missing operand": (
        lambda: ops.linear(X),  # type: ignore[call-arg]
        "linear(x, weight, bias=None): missing a required argument: 'weight'",
    ),
    "unknown attribute": (
        lambda: ops.scale(X, factor=2.0, base=3),  # type: ignore[call-arg]
        "scale(x, *, factor): got an unexpected keyword argument 'base'",
    ),
    "none where a tensor is needed": (
        lambda: ops.linear(X, None),  # type: ignore[arg-type]
        "linear: operand 'weight' must be a tensor, got NoneType",
    ),
    "number where a tensor is needed": (
        lambda: ops.add(X, 3),  # type: ignore[arg-type]
        "add: operand 'y' must be a tensor, got int",
    ),
    "tensor where a state is needed": (
        lambda: ops.write_cache(KEYS, KEYS, X, IDS),  # type: ignore[arg-type]
        "write_cache: operand 'cache' must be a state, got x: float32[T, 8]",
    ),
    "state where a tensor is needed": (
        lambda: ops.take_rows(CACHE, IDS),  # type: ignore[arg-type]
        f"take_rows: operand 'x' must be a tensor, got cache: {SPEC}",
    ),
    "unhashable attribute": (
        lambda: ops.reshape(X, shape=[T, 2, 4]),  # type: ignore[arg-type]
        "reshape: attribute 'shape' must be a hashable value, got [T, 2, 4]",
    ),
    "linear of integers": (
        lambda: ops.linear(IDS, W),
        "linear: x must be float, got int32; operands: x = ids: int32[T], weight = w: float32[4, 8]",
    ),
    "linear of other features": (
        lambda: ops.linear(X, Parameter((4, 7), name="w")),
        "linear: x has 8 features, weight takes 7; operands: x = x: float32[T, 8], weight = w: float32[4, 7]",
    ),
    "linear with a vector": (
        lambda: ops.linear(X, Parameter((8,), name="w")),
        "linear: weight must have two dimensions (out features, in features); "
        "operands: x = x: float32[T, 8], weight = w: float32[8]",
    ),
    "bias of other size": (
        lambda: ops.linear(X, W, Parameter((8,), name="b")),
        "linear: bias must have one value for each row of weight; "
        "operands: x = x: float32[T, 8], weight = w: float32[4, 8], bias = b: float32[8]",
    ),
    "embed of floats": (
        lambda: ops.embed(X, W),
        "embed: token_ids must be int32 of one dimension; "
        "operands: token_ids = x: float32[T, 8], table = w: float32[4, 8]",
    ),
    "embed to integers": (
        lambda: ops.embed(IDS, W, dtype="int32"),
        "embed: dtype must be float, got int32; operands: token_ids = ids: int32[T], table = w: float32[4, 8]",
    ),
    "add of dtypes": (
        lambda: ops.add(X, HALF),
        "add: both operands must have the same float dtype; operands: x = x: float32[T, 8], y = half: bfloat16[T, 8]",
    ),
    "multiply of shapes": (
        lambda: ops.multiply(X, X.like(shape=(T, 9))),
        "multiply: both operands must have the same shape; operands: x = x: float32[T, 8], y = float32[T, 9]",
    ),
    "scale of integers": (
        lambda: ops.scale(IDS, factor=2.0),
        "scale: x must be float, got int32; operands: x = ids: int32[T]",
    ),
    "cast to integers": (
        lambda: ops.cast(X, dtype="int32"),
        "cast: casts are between float dtypes, got float32 to int32; operands: x = x: float32[T, 8]",
    ),
    "unknown activation": (
        lambda: ops.activation(X, kind="mish"),  # type: ignore[arg-type]
        "activation: kind must be one of ['gelu', 'gelu_tanh', 'relu', 'sigmoid', 'silu', 'softplus'], got 'mish'; "
        "operands: x = x: float32[T, 8]",
    ),
    "gate of other shape": (
        lambda: ops.gated_activation(X, HEADS, kind="silu"),
        "gated_activation: both operands must have the same shape; "
        "operands: gate = x: float32[T, 8], up = q: float32[T, 6, 4]",
    ),
    "cap of nothing": (
        lambda: ops.soft_cap(X, cap=0.0),
        "soft_cap: cap must be positive, got 0.0; operands: x = x: float32[T, 8]",
    ),
    "norm weight of other size": (
        lambda: ops.rms_norm(X, Parameter((7,), name="w"), eps=1e-6),
        "rms_norm: weight must have 8 values, as the last dimension of x; "
        "operands: x = x: float32[T, 8], weight = w: float32[7]",
    ),
    "residual of other dtype": (
        lambda: ops.add_rms_norm(X, HALF, None, eps=1e-6),
        "add_rms_norm: x and residual must have the same dtype and shape; "
        "operands: x = x: float32[T, 8], residual = half: bfloat16[T, 8]",
    ),
    "float positions": (
        lambda: ops.rope_table(X, frequencies=(1.0,)),
        "rope_table: positions and lengths must be int32 of one dimension; operands: positions = x: float32[T, 8]",
    ),
    "no frequencies": (
        lambda: ops.rope_table(IDS, frequencies=()),
        "rope_table: frequencies must not be empty; operands: positions = ids: int32[T]",
    ),
    "longrope of two lengths": (
        lambda: ops.rope_table_longrope(
            IDS, IDS, short_frequencies=(1.0,), long_frequencies=(1.0, 0.5), original_length=4
        ),
        "rope_table_longrope: short and long frequencies must be of the same number; "
        "operands: positions = ids: int32[T], lengths = ids: int32[T]",
    ),
    "dynamic of odd dimensions": (
        lambda: ops.rope_table_dynamic(IDS, IDS, base=1e4, dimensions=7, factor=2.0, original_length=4),
        "rope_table_dynamic: dimensions must be even and above 2, got 7; "
        "operands: positions = ids: int32[T], lengths = ids: int32[T]",
    ),
    "rope of other tokens": (
        lambda: ops.rope(HEADS, Tensor("float32", (B, 4), "angles")),
        "rope: x and table must have the same number of tokens; "
        "operands: x = q: float32[T, 6, 4], table = angles: float32[B, 4]",
    ),
    "rope of too many dimensions": (
        lambda: ops.rope(HEADS, Tensor("float32", (T, 6), "angles")),
        "rope: table rotates more dimensions than x has; "
        "operands: x = q: float32[T, 6, 4], table = angles: float32[T, 6]",
    ),
    "rope of an odd table": (
        lambda: ops.rope(HEADS, Tensor("float32", (T, 3), "angles")),
        "rope: table must have an even number of columns, got 3; "
        "operands: x = q: float32[T, 6, 4], table = angles: float32[T, 3]",
    ),
    "reshape to another volume": (
        lambda: ops.reshape(X, shape=(T, 2, 5)),
        "reshape: shape (T, 2, 5) holds another number of values; operands: x = x: float32[T, 8]",
    ),
    "reshape without the symbol": (
        lambda: ops.reshape(X, shape=(8,)),
        "reshape: shape (8,) holds another number of values; operands: x = x: float32[T, 8]",
    ),
    "reshape to negative dimensions": (
        lambda: ops.reshape(X, shape=(T, -2, -4)),
        "reshape: shape must not have negative dimensions; operands: x = x: float32[T, 8]",
    ),
    "split into too little": (
        lambda: ops.split(X, sizes=(4, 3)),
        "split: sizes (4, 3) add up to 7, x has 8; operands: x = x: float32[T, 8]",
    ),
    "split into nothing": (
        lambda: ops.split(X, sizes=(8, 0)),
        "split: sizes must be positive, got (8, 0); operands: x = x: float32[T, 8]",
    ),
    "float rows": (
        lambda: ops.take_rows(X, X),
        "take_rows: rows must be int32 of one dimension; operands: x = x: float32[T, 8], rows = x: float32[T, 8]",
    ),
    "key of other shape": (
        lambda: ops.write_cache(HEADS, KEYS, CACHE, IDS),
        "write_cache: key must be [T, 2, 4]; operands: key = q: float32[T, 6, 4], value = k: float32[T, 2, 4], "
        f"cache = cache: {SPEC}, slot_mapping = ids: int32[T]",
    ),
    "value of other tokens": (
        lambda: ops.write_cache(KEYS, KEYS.like(shape=(B, 2, 4)), CACHE, IDS),
        "write_cache: key and value must have the same number of tokens; "
        "operands: key = k: float32[T, 2, 4], value = float32[B, 2, 4], "
        f"cache = cache: {SPEC}, slot_mapping = ids: int32[T]",
    ),
    "heads that do not divide": (
        lambda: ops.attention(HEADS.like(shape=(T, 5, 4)), CACHE, TABLE, STARTS, CONTEXTS, scale=1.0),
        "attention: 5 heads do not divide among 2 KV heads; operands: query = float32[T, 5, 4], "
        f"cache = cache: {SPEC}, "
        "block_table = table: int32[B, blocks], sequence_starts = starts: int32[B+1], "
        "context_lengths = contexts: int32[B]",
    ),
    "starts of other size": (
        lambda: ops.attention(HEADS, CACHE, TABLE, CONTEXTS, CONTEXTS, scale=1.0),
        "attention: sequence_starts must be [B+1]; operands: query = q: float32[T, 6, 4], "
        f"cache = cache: {SPEC}, "
        "block_table = table: int32[B, blocks], sequence_starts = contexts: int32[B], "
        "context_lengths = contexts: int32[B]",
    ),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors_name_op_argument_and_shapes(name: str) -> None:
    apply, message = ERRORS[name]
    graph = Graph("g")
    with tracing(graph), pytest.raises(GraphError) as error:
        apply()
    assert str(error.value) == message
    assert graph.nodes == []


def test_every_op_refuses_operands_of_another_kind() -> None:
    for op in ops.OPS.values():
        with (
            tracing(Graph("g")),
            pytest.raises(GraphError, match=rf"^{op.name}: operand '{op.operand_names[0]}' must be"),
        ):
            op("text", *[None] * (len(op.operand_names) - 1), **dict.fromkeys(op.attribute_names))


def test_an_op_outside_of_a_trace() -> None:
    with pytest.raises(GraphError) as error:
        ops.add(X, X)
    assert str(error.value) == "ops can be applied only while a model is traced; call them from a forward function"


def test_a_trace_ends_with_its_context() -> None:
    with pytest.raises(ZeroDivisionError), tracing(Graph("g")):
        1 / 0  # noqa: B018
    with pytest.raises(GraphError):
        ops.add(X, X)


def test_traces_nest() -> None:
    outer, inner = Graph("outer"), Graph("inner")
    with tracing(outer):
        ops.add(X, X)
        with tracing(inner):
            ops.scale(X, factor=2.0)
        ops.multiply(X, X)
    assert [node.op.name for node in outer.nodes] == ["add", "multiply"]
    assert [node.op.name for node in inner.nodes] == ["scale"]


def test_operators_of_tensors() -> None:
    graph = Graph("g")
    with tracing(graph):
        result = (X + X) * X * 2
    assert [node.op.name for node in graph.nodes] == ["add", "multiply", "scale"]
    assert graph.nodes[-1].attributes == {"factor": 2.0}
    assert graph.nodes[-1].outputs == (result,)


def test_defaults_are_recorded() -> None:
    graph = Graph("g")
    with tracing(graph):
        ops.rms_norm(X, None, eps=1e-6)
        ops.linear(X, W)
    assert graph.nodes[0].attributes == {"eps": 1e-6, "weight_offset": 0.0}
    assert graph.nodes[1].operands == (X, W, None)


def test_names_are_unique_and_match() -> None:
    assert all(name == op.name for name, op in ops.OPS.items())
    assert all(getattr(ops, name) is op for name, op in ops.OPS.items())
    assert all(op.__doc__ for op in ops.OPS.values())


def test_repr_of_an_op() -> None:
    assert repr(ops.linear) == "<op linear(x, weight, bias=None)>"


def test_symbols_can_be_pickled() -> None:
    assert pickle.loads(pickle.dumps(B + 1)) == B + 1
