"""Mixtures of experts."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Literal, Self

from modelhost.graph import ops
from modelhost.graph.ops.elementwise import Activation
from modelhost.graph.ops.moe import Scoring
from modelhost.graph.tensor import Parameter, Tensor

from ..module import Module
from .mlp import GatedMLP

if TYPE_CHECKING:
    from ..moe_config import MoEConfig


@dataclass(frozen=True, slots=True)
class Routing:
    """How experts are chosen for a token; the attributes of :func:`modelhost.graph.ops.route`."""

    top_k: int
    scoring: Scoring = "softmax"
    groups: int = 1
    top_groups: int = 1
    group_score: Literal["max", "top2_sum"] = "max"
    renormalize: bool = False
    scale: float = 1.0


class Router(Module):
    """Scores every expert for a token, in float32, and chooses some.

    Args:
        correction_bias: there is a bias that has a part in the choice only.
    """

    def __init__(self, hidden_size: int, experts: int, routing: Routing, *, correction_bias: bool = False) -> None:
        self.weight = Parameter((experts, hidden_size))
        self.e_score_correction_bias = Parameter((experts,)) if correction_bias else None
        self._routing = asdict(routing)

    def __call__(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Weights float32 and expert numbers int32, both ``[T, top_k]``, for ``x`` ``[T, hidden_size]``."""
        wide = x if x.dtype == "float32" else ops.cast(x, dtype="float32")
        return ops.route(ops.linear(wide, self.weight), self.e_score_correction_bias, **self._routing)


class StackedLinear(Module):
    """A projection of each expert, ``weight`` ``[experts, out_features, in_features]``."""

    def __init__(self, experts: int, in_features: int, out_features: int) -> None:
        self.weight = Parameter((experts, out_features, in_features), sharding="expert")


class Experts(Module):
    """The gated MLPs of all experts.

    Args:
        gate_limit: gates are cut to at most this before the activation; no limit by default.
        up_limit: ups are cut to ``[-up_limit, up_limit]``; no limit by default.
    """

    def __init__(
        self,
        hidden_size: int,
        intermediate_size: int,
        experts: int,
        *,
        activation: Activation,
        gate_limit: float | None = None,
        up_limit: float | None = None,
    ) -> None:
        self.gate_proj = StackedLinear(experts, hidden_size, intermediate_size)
        self.up_proj = StackedLinear(experts, hidden_size, intermediate_size)
        self.down_proj = StackedLinear(experts, intermediate_size, hidden_size)
        self._activation: Activation = activation
        self._gate_limit, self._up_limit = gate_limit, up_limit

    def __call__(self, x: Tensor, weights: Tensor, expert_ids: Tensor) -> Tensor:
        """``[T, hidden_size]``; weights and expert numbers as :class:`Router` gives them."""
        return ops.experts(
            x,
            weights,
            expert_ids,
            self.gate_proj.weight,
            self.up_proj.weight,
            self.down_proj.weight,
            kind=self._activation,
            gate_limit=self._gate_limit,
            up_limit=self._up_limit,
        )


class MoE(Module):
    """Some experts chosen for each token, and an MLP that all tokens share.

    Args:
        gate: chooses the experts.
        experts: all of them.
        shared_experts: added for every token; none by default.
    """

    def __init__(self, gate: Router, experts: Experts, shared_experts: GatedMLP | None = None) -> None:
        self.gate = gate
        self.experts = experts
        self.shared_experts = shared_experts

    @classmethod
    def of(cls, config: MoEConfig) -> Self:
        """With the sizes, activation, routing and ``mlp_bias`` of ``config``."""
        hidden, inner, act = config.hidden_size, config.moe_intermediate_size, config.hidden_act
        count, shared = config.n_routed_experts, config.n_shared_experts
        corrected = config.topk_method == "noaux_tc"
        return cls(
            Router(hidden, count, config.routing, correction_bias=corrected),
            Experts(hidden, inner, count, activation=act),
            GatedMLP(hidden, inner * shared, activation=act, bias=config.mlp_bias) if shared else None,
        )

    def __call__(self, x: Tensor) -> Tensor:
        routed = self.experts(x, *self.gate(x))
        return routed if self.shared_experts is None else routed + self.shared_experts(x)
