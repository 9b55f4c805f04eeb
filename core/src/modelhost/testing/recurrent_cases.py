"""Cases of the ops of recurrent layers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from modelhost.api.backend import RecurrentSpec, State, Tensor
from modelhost.graph import ops

from .op_cases import OpCase, Operands, Outputs
from .paged_steps import Chunk

STEPS = (
    (Chunk(0, 0, 1),),
    (Chunk(1, 0, 33), Chunk(2, 0, 5)),
    (),
    (Chunk(0, 1, 2), Chunk(1, 33, 34), Chunk(3, 0, 7), Chunk(2, 5, 8)),
    (Chunk(3, 7, 7), Chunk(1, 34, 61), Chunk(0, 2, 3)),
    (Chunk(0, 3, 4), Chunk(1, 61, 62), Chunk(2, 8, 9), Chunk(3, 7, 8)),
    (Chunk(3, 8, 11), Chunk(0, 4, 9), Chunk(1, 34, 36)),
    (Chunk(2, 0, 2), Chunk(0, 4, 5)),
)
"""Prompts and single tokens side by side, one sequence without a token, chunks run again from a snapshot, a restart."""


def recurrent_cases() -> Iterator[OpCase]:
    """Every case."""
    yield from _decay_gates()
    yield from _convolutions()
    yield from _delta_rules()


def _decay_gates() -> Iterator[OpCase]:
    for shape in ((1,), (7,), (3, 5)):

        def build(o: Operands, shape: tuple[int, ...] = shape) -> Outputs:
            size = shape[0] * (shape[1] if len(shape) > 1 else 1)
            return ops.decay_gate(ops.scale(o.activation(*shape), factor=8.0), o.parameter(shape[0]), o.parameter(size))

        yield OpCase(ops.decay_gate, f"shape {shape}", build)


def _convolutions() -> Iterator[OpCase]:
    for channels, width, bias in ((7, 4, True), (1, 1, False), (5, 2, False), (33, 6, True)):

        def build(o: Operands, channels: int = channels, width: int = width, bias: bool = bias) -> Outputs:
            return _convolve(o, o.activation(channels), width, bias, silu=bias)

        label = f"{channels} channels, {width} taps{', bias and silu' if bias else ''}"
        yield OpCase(ops.causal_convolution, label, build, STEPS)

    def piece(o: Operands) -> Outputs:
        first, second = ops.split(o.activation(12), sizes=(5, 7))
        return _convolve(o, first, 3, False, silu=True), _convolve(o, second, 4, True, silu=False)

    yield OpCase(ops.causal_convolution, "two states, pieces of one tensor", piece, STEPS)
    yield OpCase(ops.causal_convolution, "prompts alone", lambda o: _convolve(o, o.activation(6), 4, True, silu=True))


def _convolve(o: Operands, x: Tensor, width: int, bias: bool, *, silu: bool) -> Tensor:
    channels = int(str(x.shape[1]))
    weight, offset = o.parameter(channels, width), o.parameter(channels) if bias else None
    state = o.state(RecurrentSpec((width - 1, channels)))
    kind: Literal["silu"] | None = "silu" if silu else None
    return ops.causal_convolution(x, weight, offset, state, *indices(o, state), activation=kind)


def _delta_rules() -> Iterator[OpCase]:
    cases: dict[str, tuple[int, int, int, int, bool, bool]] = {
        "one head": (1, 1, 5, 5, False, True),
        "shared keys": (2, 6, 7, 3, False, True),
        "tiled keys": (2, 6, 3, 7, False, True),
        "a decay for each row": (3, 3, 9, 5, True, True),
        "as long as they are": (2, 4, 6, 6, True, False),
    }
    for label, (key_heads, value_heads, key_dim, value_dim, by_row, normalize) in cases.items():

        def build(
            o: Operands,
            label: str = label,
            heads: tuple[int, int] = (key_heads, value_heads),
            dims: tuple[int, int] = (key_dim, value_dim),
            by_row: bool = by_row,
            normalize: bool = normalize,
        ) -> Outputs:
            return _delta(o, heads, dims, by_row=by_row, normalize=normalize, tiled="tiled" in label)

        yield OpCase(ops.gated_delta_rule, label, build, STEPS)
    yield OpCase(
        ops.gated_delta_rule,
        "prompts alone",
        lambda o: _delta(o, (1, 2), (6, 6), by_row=False, normalize=True, tiled=False),
    )


def _delta(
    o: Operands, heads: tuple[int, int], dims: tuple[int, int], *, by_row: bool, normalize: bool, tiled: bool
) -> Tensor:
    """The decay and beta are made in float32, so that they are exact in every dtype of activations."""
    query, key = (ops.scale(o.activation(heads[0], dims[0]), factor=1 / 2) for _ in range(2))
    value = o.activation(heads[1], dims[1])
    spread = ops.cast(o.activation(*((heads[1], dims[0]) if by_row else (heads[1],))), dtype="float32")
    decay = ops.scale(ops.multiply(spread, spread), factor=-1.0)
    beta = ops.activation(ops.cast(o.activation(heads[1]), dtype="float32"), kind="sigmoid")
    state = o.state(RecurrentSpec((heads[1], *dims)))
    return ops.gated_delta_rule(
        query,
        key,
        value,
        decay,
        beta,
        state,
        *indices(o, state),
        scale=0.6,
        normalize=normalize,
        key_heads="tiled" if tiled else "grouped",
    )


def indices(o: Operands, state: State) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The slots and lengths that ops of recurrent layers take."""
    step = o.step
    return step.read_slots(state), step.write_slots(state), step.sequence_starts, step.context_lengths
