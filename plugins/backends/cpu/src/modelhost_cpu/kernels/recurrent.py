"""Short causal convolutions and decay gates."""

from __future__ import annotations

from typing import Any

from modelhost.api.backend import Node
from modelhost.graph import ops
from modelhost_cpu.encodings.packing import ROWS, Packing, decode_columns, padded_columns
from modelhost_cpu.encodings.plain import Plain
from modelhost_cpu.language.math import exp, softplus
from modelhost_cpu.language.types import f32
from modelhost_cpu.language.value import Value
from modelhost_cpu.language.vectors import BYTES, FLOATS, LANES, each_vector, load_part, store_part
from modelhost_cpu.native.kernel import Kernel
from modelhost_cpu.program.builder import ProgramBuilder
from modelhost_cpu.program.lowering import lowers
from modelhost_cpu.program.views import Slot, View
from modelhost_cpu.weights import group_bytes

from .activations import ACTIVATIONS
from .elementwise import row_grain
from .sequences import ChunkSequence, load_sequence, sequence_count, sequence_operands

_GROUPS_OF_A_CHUNK = 16


def causal_convolution(
    k: Kernel, packing: Packing, channels: int, width: int, stride: int, activation: str | None
) -> None:
    """Kernel: convolve some groups of sixteen channels of one sequence.

    Slots: ``x``, ``weight``, ``y``, ``state``, those of the sequences, and ``bias`` if it is given. Scratch memory
    takes the weights of a group.
    """
    groups = -(-channels // ROWS)
    blocks = -(-groups // _GROUPS_OF_A_CHUNK)
    sequence = load_sequence(k, k.chunk // blocks, 4 * channels * (width - 1))
    first = k.chunk % blocks * _GROUPS_OF_A_CHUNK
    last = k.minimum(first + _GROUPS_OF_A_CHUNK, k.integer(groups))
    whole, rest = divmod(channels, ROWS)
    with k.loop(first, k.minimum(last, k.integer(whole))) as group:
        _convolve(k, sequence, group, ROWS, packing, channels, width, stride, activation)
    if rest:
        with k.when(last > whole):
            _convolve(k, sequence, k.integer(whole), rest, packing, channels, width, stride, activation)


def _convolve(
    k: Kernel,
    sequence: ChunkSequence,
    group: Value,
    count: int,
    packing: Packing,
    channels: int,
    width: int,
    stride: int,
    activation: str | None,
) -> None:
    """The first ``count`` channels of a group, token after token; the inputs before it stay in registers."""
    decode_columns(k, packing, k.pointer("weight") + group * group_bytes(packing, width), width, k.scratch)
    weights = [k.load(FLOATS, k.scratch, tap * BYTES) for tap in range(width)]
    place = group * BYTES
    bias = load_part(k, k.pointer("bias"), place, count) if k.has("bias") else k.zero(FLOATS)
    window = [k.variable(_before(k, sequence, place + 4 * channels * tap, count)) for tap in range(width - 1)]
    with k.loop(sequence.start, sequence.end) as token:
        newest = load_part(k, k.pointer("x") + token * stride, place, count)
        inputs = [*(variable.value for variable in window), newest]
        total = bias
        for weight, value in zip(weights, inputs, strict=True):
            total = k.fma(weight, value, total)
        if activation is not None:
            total = ACTIVATIONS[activation](k, total)
        store_part(k, total, k.pointer("y") + token * (4 * channels), place, count)
        for variable, value in zip(window, inputs[1:], strict=True):
            variable.set(value)
    for tap, variable in enumerate(window):
        store_part(k, variable.value, sequence.after, place + 4 * channels * tap, count)


def _before(k: Kernel, sequence: ChunkSequence, place: Value, count: int) -> Value:
    return k.select(sequence.fresh, k.zero(FLOATS), load_part(k, sequence.before, place, count))


@lowers(ops.causal_convolution)
def lower_causal_convolution(b: ProgramBuilder, node: Node) -> None:
    operands: Any = node.operands
    x, (channels, width), bias = b.view(operands[0]), operands[1].shape, operands[2]
    stored = b.parameter(operands[1])
    packing: Packing = stored.packing if stored is not None and stored.packing is not None else Plain("f32")
    b.call(
        causal_convolution,
        sequence_count(b, node),
        {
            "x": x,
            "weight": Slot(offset=stored.address if stored is not None else 0),
            "bias": None if bias is None else b.values(bias),
            "y": b.output(node.outputs[0]),
            **sequence_operands(b, node, 3),
        },
        grain=1,
        columns=-(-channels // (ROWS * _GROUPS_OF_A_CHUNK)),
        scratch=padded_columns(packing, width) * ROWS * 4,
        packing=packing,
        channels=channels,
        width=width,
        stride=x.stride,
        activation=node.attributes["activation"],
    )


def decay_gate(k: Kernel, heads: int, size: int, stride: int) -> None:
    """Kernel: ``-exp(log_rate) * softplus(x + bias)``. Heads of one element lie side by side in vectors."""
    x, y = k.pointer("x"), k.pointer("y")
    rates, biases = k.pointer("log_rate"), k.pointer("bias")
    parts, width = (1, heads) if size == 1 else (heads, size)
    first, last = k.span(k.chunk, row_grain(heads * size))
    with k.loop(first, last) as row, k.loop(0, parts) as part:
        start = part * (4 * width)
        source, target = x + row * stride + start, y + row * (4 * heads * size) + start
        for offset, count in each_vector(k, width):
            rate = load_part(k, rates, offset, count) if size == 1 else k.load(f32, rates, part * 4).splat(LANES)
            value = load_part(k, source, offset, count) + load_part(k, biases + start, offset, count)
            store_part(k, -(exp(k, rate) * softplus(k, value)), target, offset, count)


@lowers(ops.decay_gate)
def lower_decay_gate(b: ProgramBuilder, node: Node) -> None:
    operand, log_rate, bias = node.operands
    x: View = b.view(operand)  # type: ignore[arg-type]
    y = b.output(node.outputs[0])
    heads: Any = operand.shape[1]  # type: ignore[union-attr]
    b.call(
        decay_gate,
        y.rows,
        {"x": x, "log_rate": b.values(log_rate), "bias": b.values(bias), "y": y},
        grain=row_grain(y.columns),
        heads=heads,
        size=y.columns // heads,
        stride=x.stride,
    )
