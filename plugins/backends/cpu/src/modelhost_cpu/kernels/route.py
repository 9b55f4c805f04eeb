"""The choice of experts for every token."""

from __future__ import annotations

from typing import Any

from modelhost.api.backend import Node
from modelhost.graph import ops
from modelhost_cpu.language.function import Function
from modelhost_cpu.language.math import exp, sigmoid, softplus
from modelhost_cpu.language.types import f32, i32, i64, vector
from modelhost_cpu.language.value import Value
from modelhost_cpu.language.vectors import BYTES, FLOATS, LANES, each_vector, load_part, store_part
from modelhost_cpu.native.kernel import Kernel
from modelhost_cpu.program.builder import ProgramBuilder
from modelhost_cpu.program.lowering import lowers

from .shape import contiguous

_GRAIN = 8
_INTEGERS = vector(i32, LANES)
_LOWEST = float("-inf")


def _padded(count: int) -> int:
    return -(-count // LANES) * LANES


def route(
    k: Kernel,
    experts: int,
    stride: int,
    top_k: int,
    scoring: str,
    groups: int,
    top_groups: int,
    group_score: str,
    renormalize: bool,
    scale: float,
) -> None:
    """Kernel: choose experts for some tokens.

    Slots: ``logits``, ``weights``, ``ids``, and if they are given ``bias`` and ``chosen``. Scratch memory takes the
    scores of a token, the ranks by which its experts are chosen, and the ranks of the groups.
    """
    scores, ranks = k.scratch, k.scratch + 4 * _padded(experts)
    group_ranks = ranks + 4 * _padded(experts)
    first, last = k.span(k.chunk, _GRAIN)
    with k.loop(first, last) as token:
        _score(k, k.pointer("logits") + token * stride, scores, experts, scoring)
        ids, weights = k.pointer("ids") + token * (4 * top_k), k.pointer("weights") + token * (4 * top_k)
        if k.has("chosen"):
            with k.loop(0, top_k * 4, 4) as place:
                k.store(k.load(i32, k.pointer("chosen") + token * (4 * top_k), place), ids, place)
        else:
            _rank(k, scores, ranks, experts)
            if groups > 1:
                _keep_best_groups(k, ranks, group_ranks, experts, groups, top_groups, group_score == "top2_sum")
            _choose(k, ranks, experts, top_k, ids)
        _weigh(k, scores, ids, weights, top_k, renormalize, scale)


def _score(k: Function, logits: Value, scores: Value, experts: int, scoring: str) -> None:
    """Scores of all experts, the softmax not yet divided by its sum; zeros fill the last vector."""
    if scoring == "softmax":
        highest = k.variable(k.constant(FLOATS, _LOWEST))
        for offset, count in each_vector(k, experts):
            highest.set(k.maximum(_load_or(k, logits, offset, count, _LOWEST), highest.value))
        top, total = k.max(highest.value).splat(LANES), k.variable(k.zero(FLOATS))
        for offset, count in each_vector(k, experts):
            value = exp(k, _load_or(k, logits, offset, count, _LOWEST) - top)
            k.store(value, scores, offset)
            total.add(value)
        _divide(k, scores, k.sum(total.value), experts)
        return
    for offset, count in each_vector(k, experts):
        value = load_part(k, logits, offset, count)
        k.store(sigmoid(k, value) if scoring == "sigmoid" else k.sqrt(softplus(k, value)), scores, offset)


def _load_or(k: Function, pointer: Value, offset: Value, count: int, other: float) -> Value:
    """The first ``count`` lanes from memory, ``other`` in the rest."""
    value = load_part(k, pointer, offset, count)
    return (
        value if count == LANES else k.select(k.first_lanes(LANES, k.integer(count)), value, k.constant(FLOATS, other))
    )


def _divide(k: Function, values: Value, divisor: Value, count: int) -> None:
    for offset, lanes in each_vector(k, count):
        store_part(k, load_part(k, values, offset, lanes) / divisor.splat(LANES), values, offset, lanes)


def _rank(k: Kernel, scores: Value, ranks: Value, experts: int) -> None:
    """Scores plus bias, minus infinity beyond the last expert."""
    for offset, count in each_vector(k, experts):
        value = _load_or(k, scores, offset, count, _LOWEST)
        k.store(value + load_part(k, k.pointer("bias"), offset, count) if k.has("bias") else value, ranks, offset)


def _best(k: Function, ranks: Value, count: int) -> Value:
    """The index of the highest of the ranks, which fill whole vectors; the lowest one on a tie."""
    highest, first = k.variable(k.constant(FLOATS, _LOWEST)), k.variable(k.constant(_INTEGERS, 1 << 30))
    lanes = k.vector(i32, list(range(LANES)))
    nbytes = _padded(count) * 4
    with k.loop(0, nbytes, BYTES) as offset:
        highest.set(k.maximum(k.load(FLOATS, ranks, offset), highest.value))
    top = k.max(highest.value).splat(LANES)
    with k.loop(0, nbytes, BYTES) as offset:
        index = lanes + (offset // 4).to(i32).splat(LANES)
        equal = k.load(FLOATS, ranks, offset).equals(top)
        first.set(k.minimum(k.select(equal, index, k.constant(_INTEGERS, 1 << 30)), first.value))
    # where all ranks are NaN, any index that exists
    return k.minimum(-k.max(-first.value), k.constant(i32, count - 1))


def _choose(k: Function, ranks: Value, experts: int, top_k: int, ids: Value) -> None:
    """The best experts in order. Their ranks are overwritten."""
    with k.loop(0, top_k * 4, 4) as place:
        best = _best(k, ranks, experts)
        k.store(best, ids, place)
        k.store(k.constant(f32, _LOWEST), ranks, best.to(i64) * 4)


def _keep_best_groups(
    k: Function, ranks: Value, group_ranks: Value, experts: int, groups: int, top_groups: int, two: bool
) -> None:
    """Minus infinity for the experts outside of the best groups."""
    size = experts // groups
    with k.loop(0, _padded(groups) * 4, BYTES) as offset:
        k.store(k.constant(FLOATS, _LOWEST), group_ranks, offset)
    with k.loop(0, groups) as group:
        k.store(_group_rank(k, ranks + group * (4 * size), size, two and size > 1), group_ranks, group * 4)
    chosen = [_take(k, group_ranks, groups) for _ in range(top_groups)]
    with k.loop(0, groups) as group:
        kept = k.variable(k.constant(i32, 0))
        for number in chosen:
            kept.set(kept.value | k.select(number.to(i64).equals(group), k.constant(i32, 1), k.constant(i32, 0)))
        with k.when(kept.value.equals(0)), k.loop(0, size * 4, 4) as offset:
            k.store(k.constant(f32, _LOWEST), ranks + group * (4 * size), offset)


def _take(k: Function, ranks: Value, count: int) -> Value:
    """The index of the best, whose rank becomes minus infinity."""
    best = _best(k, ranks, count)
    k.store(k.constant(f32, _LOWEST), ranks, best.to(i64) * 4)
    return best


def _group_rank(k: Function, ranks: Value, size: int, two: bool) -> Value:
    """The best rank in a group, or the sum of its two best."""
    best, second = (k.variable(k.constant(f32, _LOWEST)) for _ in range(2))
    with k.loop(0, size * 4, 4) as offset:
        rank = k.load(f32, ranks, offset)
        second.set(k.maximum(k.minimum(rank, best.value), second.value))
        best.set(k.maximum(rank, best.value))
    return second.value + best.value if two else best.value


def _weigh(k: Function, scores: Value, ids: Value, weights: Value, top_k: int, renormalize: bool, scale: float) -> None:
    total = k.variable(k.constant(f32, 0.0))
    with k.loop(0, top_k * 4, 4) as place:
        score = k.load(f32, scores, k.load(i32, ids, place).to(i64) * 4)
        k.store(score, weights, place)
        total.add(score)
    divisor = total.value + 1e-20 if renormalize else k.constant(f32, 1.0)
    with k.loop(0, top_k * 4, 4) as place:
        k.store(k.load(f32, weights, place) / divisor * scale, weights, place)


@lowers(ops.route)
def lower_route(b: ProgramBuilder, node: Node) -> None:
    operand, bias, given = node.operands
    logits, chosen = b.view(operand), given  # type: ignore[arg-type]
    weights, ids = (b.output(tensor) for tensor in node.outputs)
    attributes: dict[str, Any] = dict(node.attributes)
    b.call(
        route,
        weights.rows,
        {
            "logits": logits,
            "weights": weights,
            "ids": ids,
            "bias": None if bias is None else b.values(bias),
            "chosen": None if chosen is None else contiguous(b, b.view(chosen)),  # type: ignore[arg-type]
        },
        grain=_GRAIN,
        scratch=4 * (2 * _padded(logits.columns) + _padded(attributes["groups"])),
        experts=logits.columns,
        stride=logits.stride,
        **attributes,
    )
