"""Cases of routers, experts, latent attention and the choice of tokens."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict

from modelhost.api.backend import CacheSpec, State, Tensor
from modelhost.api.blocks import Routing
from modelhost.graph import ops

from .op_cases import MIXED, OpCase, Operands, Outputs

EXPERTS, TOP_K = 12, 3
_ROUTINGS = {
    "softmax": (Routing(TOP_K), False),
    "softmax, renormalised and scaled": (Routing(TOP_K, renormalize=True, scale=2.5), False),
    "groups by maximum": (Routing(TOP_K, groups=4, top_groups=2), False),
    "sigmoid and bias": (Routing(TOP_K, "sigmoid", renormalize=True, scale=1.8), True),
    "groups by two best": (Routing(TOP_K, "sigmoid", 3, 2, "top2_sum", renormalize=True), True),
    "sqrt softplus": (Routing(TOP_K, "sqrt_softplus", renormalize=True, scale=1.5), True),
    "all experts": (Routing(EXPERTS), False),
}


def expert_cases() -> Iterator[OpCase]:
    """Routers and experts."""
    for label, (routing, bias) in _ROUTINGS.items():

        def choose(o: Operands, routing: Routing = routing, bias: bool = bias) -> Outputs:
            return ops.route(o.activation(EXPERTS), o.parameter(EXPERTS) if bias else None, **asdict(routing))

        yield OpCase(ops.route, label, choose)
    yield OpCase(ops.route, "chosen by something else", _route_chosen)
    yield OpCase(ops.experts, "gated by silu", lambda o: _run(o, "silu"))
    yield OpCase(ops.experts, "one expert each", lambda o: _run(o, "gelu_tanh", top_k=1))
    yield OpCase(ops.experts, "limits", lambda o: _run(o, "silu", gate_limit=0.3, up_limit=0.2))
    yield OpCase(
        ops.experts, "q8_0 weights", lambda o: _run(o, "silu", 64, 32), encodings=dict.fromkeys(("g", "u", "d"), "q8_0")
    )


def _route_chosen(o: Operands) -> Outputs:
    _, chosen = ops.route(o.activation(EXPERTS), None, top_k=TOP_K)
    logits = o.activation(EXPERTS)
    return ops.route(logits, None, chosen, top_k=TOP_K, scoring="sqrt_softplus", renormalize=True, scale=1.5)


def _run(
    o: Operands,
    kind: ops.elementwise.Activation,
    hidden: int = 33,
    inner: int = 7,
    *,
    top_k: int = TOP_K,
    gate_limit: float | None = None,
    up_limit: float | None = None,
) -> Tensor:
    weights, ids = ops.route(o.activation(EXPERTS), None, top_k=top_k)
    gate, up = (o.parameter(EXPERTS, inner, hidden, name=name) for name in ("g", "u"))
    down = o.parameter(EXPERTS, hidden, inner, name="d")
    x = o.activation(hidden)
    return ops.experts(x, weights, ids, gate, up, down, kind=kind, gate_limit=gate_limit, up_limit=up_limit)


def latent_cases() -> Iterator[OpCase]:
    """Projections of heads, latent attention, and attention over chosen tokens."""
    for label, rows in (("all rows", (0, 7)), ("first rows", (0, 3)), ("last rows", (3, 7))):
        count = rows[1] - rows[0]

        def plain(o: Operands, rows: tuple[int, int] = rows) -> Outputs:
            return ops.head_linear(o.activation(3, 5), o.parameter(21, 5), rows=rows)

        def transposed(o: Operands, rows: tuple[int, int] = rows, count: int = count) -> Outputs:
            return ops.head_linear(o.activation(3, count), o.parameter(21, 5), rows=rows, transpose=True)

        yield OpCase(ops.head_linear, label, plain)
        yield OpCase(ops.head_linear, f"{label}, transposed", transposed)
    yield OpCase(ops.latent_attention, "large latents", lambda o: _latent(o, latent=33, keys=5, rotated=3), MIXED)
    yield OpCase(ops.latent_attention, "small latents", lambda o: _latent(o, latent=3, keys=7, rotated=2), MIXED)
    yield OpCase(ops.latent_attention, "nothing rotated", lambda o: _latent(o, latent=9, keys=6, rotated=0), MIXED)
    yield OpCase(ops.latent_attention, "chosen tokens", lambda o: _latent(o, 33, 5, 3, top_k=5), MIXED)
    for top_k in (1, 5, 100):

        def indexed(o: Operands, top_k: int = top_k) -> Outputs:
            return _index(o, top_k)

        yield OpCase(ops.index_top_k, f"{top_k} tokens", indexed, MIXED)


def _index(o: Operands, top_k: int) -> Tensor:
    cache, step = o.cache(CacheSpec(1, 5, 5, latent=True)), o.step
    ops.write_cache(o.activation(1, 5), None, cache, step.slot_mapping(cache))
    return ops.index_top_k(o.activation(9, 5), o.activation(9), cache, *_indices(o, cache), top_k=top_k)


def _latent(o: Operands, latent: int, keys: int, rotated: int, *, top_k: int | None = None) -> Tensor:
    heads, values = 3, 4
    cache, step = o.cache(CacheSpec(1, latent + rotated, latent, latent=True)), o.step
    ops.write_cache(o.activation(1, latent + rotated), None, cache, step.slot_mapping(cache))
    selected = None if top_k is None else _index(o, top_k)
    projection = o.parameter(heads * (keys + values), latent)
    query = o.activation(heads, keys + rotated)
    return ops.latent_attention(query, projection, cache, *_indices(o, cache), selected, scale=0.6, value_dim=values)


def selecting_cases() -> Iterator[OpCase]:
    """Attention with sinks and over chosen tokens."""
    for label, spec, group in (("groups", CacheSpec(2, 5, 5), 3), ("window", CacheSpec(1, 5, 7, 4), 2)):

        def sinking(o: Operands, spec: CacheSpec = spec, group: int = group) -> Outputs:
            return _attend(o, spec, group, sinks=True)

        def selecting(o: Operands, spec: CacheSpec = spec, group: int = group) -> Outputs:
            return _attend(o, spec, group, top_k=5)

        def both(o: Operands, spec: CacheSpec = spec, group: int = group) -> Outputs:
            return _attend(o, spec, group, sinks=True, top_k=3)

        yield OpCase(ops.attention, f"sinks, {label}", sinking, MIXED)
        yield OpCase(ops.attention, f"chosen tokens, {label}", selecting, MIXED)
        yield OpCase(ops.attention, f"sinks and chosen tokens, {label}", both, MIXED)
    yield OpCase(ops.attention, "latents", lambda o: _attend(o, CacheSpec(1, 9, 6, latent=True), 3), MIXED)
    latents = CacheSpec(1, 9, 6, window=6, latent=True)
    yield OpCase(ops.attention, "latents, sinks and window", lambda o: _attend(o, latents, 3, sinks=True), MIXED)
    yield OpCase(ops.write_cache, "latents", lambda o: _attend(o, CacheSpec(2, 5, 3, latent=True), 1), MIXED)


def _attend(o: Operands, spec: CacheSpec, group: int, *, sinks: bool = False, top_k: int | None = None) -> Tensor:
    cache, step = o.cache(spec), o.step
    values = None if spec.latent else o.activation(spec.kv_heads, spec.value_dim)
    ops.write_cache(o.activation(spec.kv_heads, spec.key_dim), values, cache, step.slot_mapping(cache))
    chosen = None
    if top_k is not None:
        index = o.cache(CacheSpec(1, 5, 5, spec.window, latent=True))
        ops.write_cache(o.activation(1, 5), None, index, step.slot_mapping(index))
        chosen = ops.index_top_k(o.activation(9, 5), o.activation(9), index, *_indices(o, index), top_k=top_k)
    heads = spec.kv_heads * group
    sink = o.parameter(heads) if sinks else None
    return ops.attention(o.activation(heads, spec.key_dim), cache, *_indices(o, cache), sink, chosen, scale=0.6)


def _indices(o: Operands, cache: State) -> tuple[Tensor, Tensor, Tensor]:
    return o.step.block_table(cache), o.step.sequence_starts, o.step.context_lengths
