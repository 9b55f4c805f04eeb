"""The forms in which checkpoints keep the weights of experts."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from modelhost.api.weight import Weight

from .checkpoint import Checkpoint
from .load import Source


def expert_source(names: tuple[str, ...], shape: tuple[int, ...], checkpoint: Checkpoint) -> Source:
    """Where the stacked weights of all experts come from.

    A checkpoint has them stacked under the parameter's own name, with or without ``.weight``; with gate and up in one
    tensor ``gate_up_proj``, gates first; or as one tensor for each expert, the expert's number before the projection.

    Args:
        names: that the parameter may have, ``PREFIX.PROJECTION.weight``.
        shape: ``(experts, out, in)``.
    """
    for name in names:
        prefix, projection = name.removesuffix(".weight").rsplit(".", 1)
        for stacked in (name, f"{prefix}.{projection}"):
            if stacked in checkpoint:
                return Source(stacked, shape=shape)
        half = {"gate_proj": 0, "up_proj": 1}.get(projection)
        for fused in (f"{prefix}.gate_up_proj", f"{prefix}.gate_up_proj.weight"):
            if half is not None and fused in checkpoint:
                return Source(fused, partial(_half, half=half), shape)
    each = [_each(name, shape[0]) for name in names]
    stack = next((one for one in each if one[0] in checkpoint), each[0])
    return Source(names[0], shape=shape, stack=stack)


def _each(name: str, count: int) -> tuple[str, ...]:
    prefix, projection, leaf = name.rsplit(".", 2)
    return tuple(f"{prefix}.{expert}.{projection}.{leaf}" for expert in range(count))


def _half(weight: Weight, *, half: int) -> Weight:
    """The first or second half of every expert's rows, a piece for each expert."""
    experts, rows, *rest = weight.shape
    size = rows // 2
    halves = weight.blocks[:, half * size : (half + 1) * size]
    pieces = tuple(replace(weight, shape=(1, size, *rest), blocks=blocks[None]) for blocks in halves)
    return replace(weight, shape=(experts, size, *rest), blocks=pieces)
