"""Projections and embeddings."""

from __future__ import annotations

from modelhost.graph import ops
from modelhost.graph.tensor import Parameter, Sharding, Tensor

from ..module import Module
from ..step import Step


class Linear(Module):
    """``y = x @ weight.T + bias``, ``weight`` ``[out_features, in_features]``."""

    def __init__(
        self, in_features: int, out_features: int, *, bias: bool = False, sharding: Sharding = "replicated"
    ) -> None:
        self.weight = Parameter((out_features, in_features), sharding=sharding)
        self.bias = (
            Parameter((out_features,), sharding="replicated" if sharding == "row" else sharding) if bias else None
        )

    def __call__(self, x: Tensor) -> Tensor:
        return ops.linear(x, self.weight, self.bias)


class Embedding(Module):
    """A table of token embeddings, ``weight`` ``[vocab_size, hidden_size]``."""

    def __init__(self, vocab_size: int, hidden_size: int) -> None:
        self.weight = Parameter((vocab_size, hidden_size), sharding="vocabulary")

    def __call__(self, step: Step) -> Tensor:
        """The embeddings of the step's tokens, ``[T, hidden_size]``."""
        return ops.embed(step.token_ids, self.weight, dtype=step.dtype)
