"""What ops of experts and of latent attention say about operands that do not fit them."""

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
LOGITS = Tensor("float32", (T, 12), "logits")
X = Tensor("float32", (T, 8), "x")
WEIGHTS, NUMBERS = Tensor("float32", (T, 2), "weights"), Tensor("int32", (T, 2), "ids")
GATE, DOWN = Parameter((12, 5, 8), name="gate"), Parameter((12, 8, 5), name="down")
HEADS = Tensor("float32", (T, 3, 6), "q")
UP = Parameter((3 * 9, 10), name="up")
LATENTS = State("latents", CacheSpec(1, 12, 10, latent=True))
PAGES = State("pages", CacheSpec(1, 12, 10))
RECURRENT = State("recurrent", RecurrentSpec((3,)))
INDICES = (
    Tensor("int32", (B, Symbol("blocks")), "table"),
    Tensor("int32", (B + 1,), "starts"),
    Tensor("int32", (B,), "contexts"),
)

ERRORS: dict[str, tuple[Callable[[], Any], str]] = {
    "groups": (lambda: ops.route(LOGITS, top_k=2, groups=5), "route: 12 experts do not divide into 5 groups"),
    "top groups": (
        lambda: ops.route(LOGITS, top_k=2, groups=4, top_groups=5),
        "route: top_groups must be between 1 and 4, got 5",
    ),
    "top k": (lambda: ops.route(LOGITS, top_k=7, groups=2), "route: top_k must be between 1 and 6, got 7"),
    "scoring": (
        lambda: ops.route(LOGITS, top_k=2, scoring="tanh"),  # type: ignore[arg-type]
        "route: unknown scoring 'tanh'",
    ),
    "bias": (lambda: ops.route(LOGITS, Parameter((5,), name="b"), top_k=2), "route: bias must have 12 values"),
    "features of experts": (
        lambda: ops.experts(LOGITS, WEIGHTS, NUMBERS, GATE, GATE, DOWN, kind="silu"),
        "experts: x has 12 features, the experts take 8",
    ),
    "shape of down": (
        lambda: ops.experts(X, WEIGHTS, NUMBERS, GATE, GATE, GATE, kind="silu"),
        "experts: down must be [12, 8, 5]",
    ),
    "numbers of experts": (
        lambda: ops.experts(X, WEIGHTS, WEIGHTS, GATE, GATE, DOWN, kind="silu"),
        "experts: weights must be float32, expert_ids int32",
    ),
    "heads": (
        lambda: ops.head_linear(HEADS, Parameter((7, 6), name="w"), rows=(0, 1)),
        "head_linear: 7 rows do not divide among 3 heads",
    ),
    "rows": (
        lambda: ops.head_linear(HEADS, Parameter((6, 6), name="w"), rows=(0, 3)),
        "head_linear: rows (0, 3) are not within the 2 rows of a head",
    ),
    "not latent": (
        lambda: ops.latent_attention(HEADS, UP, PAGES, *INDICES, scale=1.0, value_dim=5),
        "latent_attention: cache must be latent, of one head",
    ),
    "recurrent": (
        lambda: ops.latent_attention(HEADS, UP, RECURRENT, *INDICES, scale=1.0, value_dim=5),
        "latent_attention: cache must be paged, not a recurrent state",
    ),
    "query": (
        lambda: ops.latent_attention(HEADS, UP, LATENTS, *INDICES, scale=1.0, value_dim=4),
        "latent_attention: query must have 5 + 2 numbers for each head, got 6",
    ),
    "keys of the index": (
        lambda: ops.index_top_k(HEADS, Tensor("float32", (T, 3)), LATENTS, *INDICES, top_k=2),
        "index_top_k: query has 6 dimensions, the keys 12",
    ),
    "values of latents": (
        lambda: ops.write_cache(
            Tensor("float32", (T, 1, 12), "k"), Tensor("float32", (T, 1, 10), "v"), LATENTS, Tensor("int32", (T,))
        ),
        "write_cache: a latent cache takes keys only, any other keys and values",
    ),
    "bias of a norm": (
        lambda: ops.layer_norm(X, None, Parameter((3,), name="b"), eps=1e-5),
        "layer_norm: bias must have 8 values",
    ),
    "factors of rows": (
        lambda: ops.scale_rows(X, WEIGHTS),
        "scale_rows: factors must have one value for each row of x",
    ),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors_name_op_and_shapes(name: str) -> None:
    apply, message = ERRORS[name]
    graph = Graph("g")
    with tracing(graph), pytest.raises(GraphError) as error:
        apply()
    assert str(error.value).startswith(f"{message}; operands: ")
    assert graph.nodes == []


def test_latent_attention_fits_its_operands() -> None:
    graph = Graph("g")
    with tracing(graph):
        result = ops.latent_attention(HEADS, UP, LATENTS, *INDICES, scale=1.0, value_dim=5)
    assert result.shape == (T, 3, 5)
    assert LATENTS.spec.bytes_per_token("float16") == 24  # type: ignore[union-attr]
