"""Mixture of experts: choosing experts for each token and running them."""

from __future__ import annotations

from typing import Literal

from ..operation import operation, require
from ..tensor import FLOATS, Tensor
from .elementwise import ACTIVATIONS, Activation

Scoring = Literal["softmax", "sigmoid", "sqrt_softplus"]


@operation()
def route(
    logits: Tensor,
    bias: Tensor | None = None,
    chosen: Tensor | None = None,
    *,
    top_k: int,
    scoring: Scoring = "softmax",
    groups: int = 1,
    top_groups: int = 1,
    group_score: Literal["max", "top2_sum"] = "max",
    renormalize: bool = False,
    scale: float = 1.0,
) -> tuple[Tensor, Tensor]:
    """Choose ``top_k`` experts for every token.

    Scores are ``scoring(logits)`` in float32. Experts are chosen by score plus ``bias``; the weights are the scores
    without it, divided by their sum (plus 1e-20) when ``renormalize`` is set, times ``scale``. With ``groups > 1`` the
    experts form that many consecutive groups of one size, and only those of the ``top_groups`` best groups can be
    chosen, a group's rank being its best biased score or the sum of its two best. On a tie the lower index wins.
    Where ``chosen`` is given, only the weights are computed.
    Sources: DeepSeek-V2 (2024) and DeepSeek-V3 (2024), transformers ``modeling_deepseek_v3.py``.

    Args:
        logits: float ``[T, E]``.
        bias: ``[E]``.
        chosen: int32 ``[T, top_k]``, experts that were chosen otherwise, such as by the token's id.

    Returns:
        weights float32 ``[T, top_k]`` and expert numbers int32 ``[T, top_k]``: best first, or ``chosen``.
    """
    require(logits.dtype in FLOATS and len(logits.shape) == 2, "logits must be float [tokens, experts]")
    experts = logits.shape[1]
    require(isinstance(experts, int), "the number of experts must be known")
    require(bias is None or bias.shape == (experts,), f"bias must have {experts} values")
    require(scoring in ("softmax", "sigmoid", "sqrt_softplus"), f"unknown scoring {scoring!r}")
    if isinstance(experts, int):
        require(experts % groups == 0, f"{experts} experts do not divide into {groups} groups")
        require(0 < top_groups <= groups, f"top_groups must be between 1 and {groups}, got {top_groups}")
        available = experts // groups * top_groups
        require(0 < top_k <= available, f"top_k must be between 1 and {available}, got {top_k}")
    wanted = (logits.shape[0], top_k)
    require(
        chosen is None or (chosen.dtype == "int32" and chosen.shape == wanted), f"chosen must be int32 [T, {top_k}]"
    )
    require(chosen is None or (bias is None and groups == 1), "with chosen experts, there is neither bias nor group")
    return Tensor("float32", (logits.shape[0], top_k)), Tensor("int32", (logits.shape[0], top_k))


@operation()
def experts(
    x: Tensor,
    weights: Tensor,
    expert_ids: Tensor,
    gate: Tensor,
    up: Tensor,
    down: Tensor,
    *,
    kind: Activation,
    gate_limit: float | None = None,
    up_limit: float | None = None,
) -> Tensor:
    """``sum_k weights[t, k] * down[e] (activation(gate[e] x[t]) * up[e] x[t])`` with ``e = expert_ids[t, k]``.

    Args:
        x: float ``[T, H]``.
        weights: float32 ``[T, K]``.
        expert_ids: int32 ``[T, K]``.
        gate: ``[E, I, H]`` in any encoding.
        up: ``[E, I, H]`` in any encoding.
        down: ``[E, H, I]`` in any encoding.
        gate_limit: gates are cut to at most this before the activation.
        up_limit: ups are cut to ``[-up_limit, up_limit]``.
    """
    require(x.dtype in FLOATS and len(x.shape) == 2, "x must be float [tokens, features]")
    require(all(len(w.shape) == 3 for w in (gate, up, down)), "expert weights must be [experts, out, in]")
    require(gate.shape == up.shape, "gate and up must have the same shape")
    count, inner, hidden = gate.shape
    require(hidden == x.shape[1], f"x has {x.shape[1]} features, the experts take {hidden}")
    require(down.shape == (count, hidden, inner), f"down must be [{count}, {hidden}, {inner}]")
    require(weights.dtype == "float32" and expert_ids.dtype == "int32", "weights must be float32, expert_ids int32")
    require(
        weights.shape == expert_ids.shape and weights.shape[0] == x.shape[0], "weights and expert_ids must be [T, K]"
    )
    require(kind in ACTIVATIONS, f"kind must be one of {sorted(ACTIVATIONS)}, got {kind!r}")
    return x.like()
