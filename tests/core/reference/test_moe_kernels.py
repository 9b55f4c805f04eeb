"""The NumPy kernels of routers and experts against formulas in float64 or PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from modelhost.reference import KERNELS

Array = np.ndarray
RNG = np.random.default_rng(5)
PLAIN: dict[str, Any] = {"scoring": "softmax", "groups": 1, "top_groups": 1, "group_score": "max"}
PLAIN |= {"renormalize": False, "scale": 1.0}
SCORINGS = {
    "softmax": lambda x: x.softmax(-1),
    "sigmoid": torch.sigmoid,
    "sqrt_softplus": lambda x: F.softplus(x).sqrt(),
}


def _random(*shape: int, scale: float = 1.0) -> Array:
    return (RNG.standard_normal(shape) * scale).astype(np.float32)


def _route(logits: Array, bias: Array | None = None, **attributes: Any) -> tuple[Array, Array]:
    weights, ids = KERNELS["route"](logits, bias, None, **PLAIN | attributes)
    assert weights.dtype == np.float32 and ids.dtype == np.int32
    return weights, ids


@pytest.mark.parametrize("scoring", SCORINGS)
@pytest.mark.parametrize("biased", [False, True])
def test_route(scoring: str, biased: bool) -> None:
    logits, bias = _random(6, 9, scale=2.0), _random(9) if biased else None
    weights, ids = _route(logits, bias, top_k=4, scoring=scoring, renormalize=True, scale=2.5)
    scores = SCORINGS[scoring](torch.tensor(logits).double())
    ranks = scores if bias is None else scores + torch.tensor(bias)
    best = ranks.topk(4)
    np.testing.assert_array_equal(ids, best.indices)
    chosen = scores.gather(1, best.indices)
    np.testing.assert_allclose(weights, 2.5 * chosen / chosen.sum(1, keepdim=True), rtol=3e-6)


def test_weights_are_the_scores_unless_renormalised() -> None:
    weights, ids = _route(np.log(np.array([[0.1, 0.4, 0.2, 0.3]], np.float32)), top_k=2, scale=10.0)
    np.testing.assert_array_equal(ids, [[1, 3]])
    np.testing.assert_allclose(weights, [[4.0, 3.0]], rtol=1e-6)


def test_groups_are_ranked_by_their_best_or_their_two_best() -> None:
    probabilities = np.array([[0.9, 0.1, 0.05, 0.6, 0.5, 0.1, 0.2, 0.2, 0.2]], np.float32)
    logits = np.log(probabilities / (1 - probabilities))
    grouped = {"top_k": 3, "scoring": "sigmoid", "groups": 3, "top_groups": 1}
    np.testing.assert_array_equal(_route(logits, group_score="max", **grouped)[1], [[0, 1, 2]])
    np.testing.assert_array_equal(_route(logits, group_score="top2_sum", **grouped)[1], [[3, 4, 5]])
    np.testing.assert_array_equal(_route(logits, group_score="max", **grouped | {"top_groups": 2})[1], [[0, 3, 4]])


def test_the_bias_chooses_and_does_not_weigh() -> None:
    bias = np.array([0.0, 0.0, 1.0, 0.0], np.float32)
    weights, ids = _route(np.array([[2.0, 1.0, -2.0, 0.0]], np.float32), bias, top_k=2, scoring="sigmoid")
    np.testing.assert_array_equal(ids, [[2, 0]])
    np.testing.assert_allclose(weights, 1 / (1 + np.exp([[2.0, -2.0]])), rtol=1e-6)


def test_a_group_is_ranked_with_the_bias() -> None:
    bias = np.array([0.0, 0.0, 0.9, 0.0], np.float32)
    ids = _route(np.array([[1.0, 1.0, -1.0, -1.0]], np.float32), bias, top_k=2, scoring="sigmoid", groups=2)[1]
    np.testing.assert_array_equal(ids, [[2, 3]])


def test_on_a_tie_the_lower_index_wins() -> None:
    np.testing.assert_array_equal(_route(np.zeros((1, 6), np.float32), top_k=3, groups=3, top_groups=2)[1], [[0, 1, 2]])


def test_experts_that_were_chosen_otherwise_are_only_weighed() -> None:
    chosen = np.array([[2, 0]], np.int32)
    logits = np.log(np.array([[0.3, 0.6, 0.1]], np.float32))
    weights, ids = KERNELS["route"](logits, None, chosen, **PLAIN | {"top_k": 2, "renormalize": True})
    np.testing.assert_array_equal(ids, chosen)
    np.testing.assert_allclose(weights, [[0.25, 0.75]], rtol=1e-6)


@pytest.mark.parametrize("limits", [(None, None), (0.2, None), (0.3, 0.1)])
def test_experts(limits: tuple[float | None, float | None]) -> None:
    tokens, hidden, inner, count = 5, 7, 4, 6
    x, gate, up = _random(tokens, hidden), _random(count, inner, hidden), _random(count, inner, hidden)
    down, weights = _random(count, hidden, inner), _random(tokens, 3)
    ids = np.stack([RNG.permutation(count)[:3] for _ in range(tokens)]).astype(np.int32)
    got = KERNELS["experts"](x, weights, ids, gate, up, down, kind="silu", gate_limit=limits[0], up_limit=limits[1])
    every = torch.tensor(x).double()
    gates = torch.einsum("th,eih->tei", every, torch.tensor(gate).double())
    ups = torch.einsum("th,eih->tei", every, torch.tensor(up).double())
    gates = gates if limits[0] is None else gates.clamp(max=limits[0])
    ups = ups if limits[1] is None else ups.clamp(-limits[1], limits[1])
    results = torch.einsum("tei,ehi->teh", F.silu(gates) * ups, torch.tensor(down).double())
    factors = torch.zeros(tokens, count).double().scatter_(1, torch.tensor(ids).long(), torch.tensor(weights).double())
    np.testing.assert_allclose(got, torch.einsum("te,teh->th", factors, results), rtol=0, atol=1e-5)


def test_an_expert_that_is_chosen_twice_counts_twice() -> None:
    x, gate, up, down = _random(1, 3), _random(2, 4, 3), _random(2, 4, 3), _random(2, 3, 4)
    attributes = {"kind": "relu", "gate_limit": None, "up_limit": None}

    def run(weights: list[float], ids: list[int]) -> Array:
        return KERNELS["experts"](
            x, np.array([weights], np.float32), np.array([ids], np.int32), gate, up, down, **attributes
        )

    np.testing.assert_allclose(run([0.5, 0.25], [1, 1]), run([0.75], [1]), rtol=1e-6)
