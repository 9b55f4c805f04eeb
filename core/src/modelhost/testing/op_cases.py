"""Small graphs around every op, over odd shapes. :mod:`modelhost.testing.backend` runs them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any

from modelhost.api.backend import CacheSpec, DType, Graph, Operation, Parameter, RecurrentSpec, State, Tensor
from modelhost.api.step import Step
from modelhost.graph import ops
from modelhost.graph.operation import tracing

from .paged_steps import Chunk, PagedSteps

VOCABULARY = 64
TOKEN_COUNTS = (1, 0, 3, 7, 33)
Outputs = Tensor | tuple[Tensor, ...]


class Operands:
    """Hands out operands for an op under test, as tensors of the graph being traced.

    Attributes:
        step: the inputs of the step.
        dtype: of activations.
    """

    def __init__(self, graph: Graph, dtype: DType) -> None:
        self.step = Step(graph, dtype)
        self.dtype: DType = dtype
        self._count = 0

    def activation(self, *shape: int) -> Tensor:
        """Random values ``[T, *shape]`` in the dtype of activations."""
        table = self.parameter(VOCABULARY, prod(shape))
        rows = ops.embed(self.step.token_ids, table, dtype=self.dtype)
        return ops.reshape(rows, shape=self.step.shape(*shape))

    def parameter(self, *shape: int, name: str = "") -> Parameter:
        """Random values of ``shape``."""
        self._count += 1
        return Parameter(shape, name=name or f"operand.{self._count}")

    def cache(self, spec: CacheSpec) -> State:
        """A cache of its own."""
        self._count += 1
        return State(f"cache.{self._count}", spec)

    def state(self, spec: RecurrentSpec) -> State:
        """A recurrent state of its own."""
        self._count += 1
        return State(f"state.{self._count}", spec)


@dataclass(frozen=True, slots=True)
class OpCase:
    """One op with certain shapes and attributes.

    Attributes:
        op: the op under test.
        label: what is special about the case.
        build: applies the op to operands.
        steps: chunks of the steps to run one after another.
        paging: the sequences that the chunks refer to.
        encodings: encoding of parameters by name.
    """

    op: Operation[..., Any]
    label: str
    build: Callable[[Operands], Outputs]
    steps: tuple[tuple[Chunk, ...], ...] = tuple((Chunk(0, 0, n),) if n else () for n in TOKEN_COUNTS)
    paging: PagedSteps = field(default_factory=lambda: PagedSteps(vocabulary=VOCABULARY))
    encodings: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return f"{self.op.name}[{self.label}]"

    def graph(self, dtype: DType) -> Graph:
        """The op with its operands, traced for activations of ``dtype``."""
        graph = Graph(self.name)
        with tracing(graph):
            result = self.build(Operands(graph, dtype))
        outputs = (result,) if isinstance(result, Tensor) else result
        graph.outputs = {f"output.{index}": output for index, output in enumerate(outputs)}
        return graph


def op_cases() -> list[OpCase]:
    """Every case of every op."""
    from .compressed_cases import compressed_cases, stream_cases
    from .expert_cases import expert_cases, latent_cases, selecting_cases
    from .recurrent_cases import recurrent_cases

    makers = (_linear, _embed, _elementwise, _activations, _norms, _rope_tables, _rope, _shapes, _attention)
    more = (expert_cases, latent_cases, selecting_cases, recurrent_cases, compressed_cases, stream_cases)
    return [case for maker in (*makers, *more) for case in maker()]


def _linear() -> Iterator[OpCase]:
    for inner, outer, bias in ((1, 1, False), (7, 5, True), (33, 65, False), (65, 33, True), (576, 3, False)):

        def build(o: Operands, inner: int = inner, outer: int = outer, bias: bool = bias) -> Outputs:
            return ops.linear(o.activation(inner), o.parameter(outer, inner), o.parameter(outer) if bias else None)

        yield OpCase(ops.linear, f"{outer}x{inner}{' with bias' if bias else ''}", build)
    yield OpCase(ops.linear, "heads", lambda o: ops.linear(o.activation(3, 7), o.parameter(5, 7), None))
    yield OpCase(ops.linear, "weight used twice", _tied)
    for encoding in ("f16", "bf16", "q8_0", "q4_0", "q4_1", "q5_0", "q5_1"):

        def encoded(o: Operands) -> Outputs:
            return ops.linear(o.activation(64), o.parameter(33, 64, name="weight"), None)

        yield OpCase(ops.linear, f"{encoding} weight", encoded, encodings={"weight": encoding})


def _tied(o: Operands) -> Outputs:
    table = o.parameter(VOCABULARY, 33)
    return ops.linear(ops.embed(o.step.token_ids, table, dtype=o.dtype), table, None)


def _embed() -> Iterator[OpCase]:
    for width in (1, 7, 65):

        def build(o: Operands, width: int = width) -> Outputs:
            return ops.embed(o.step.token_ids, o.parameter(VOCABULARY, width), dtype=o.dtype)

        yield OpCase(ops.embed, f"width {width}", build)

    def encoded(o: Operands) -> Outputs:
        return ops.embed(o.step.token_ids, o.parameter(VOCABULARY, 64, name="table"), dtype=o.dtype)

    yield OpCase(ops.embed, "q8_0 table", encoded, encodings={"table": "q8_0"})
    yield OpCase(
        ops.embed,
        "learned positions",
        lambda o: ops.embed(o.step.positions, o.parameter(40, 7), dtype=o.dtype),
        ((Chunk(0, 0, 33),), (), (Chunk(0, 33, 34), Chunk(1, 0, 5)), (Chunk(1, 5, 6), Chunk(0, 34, 40))),
    )


def _elementwise() -> Iterator[OpCase]:
    yield OpCase(ops.add, "two", lambda o: ops.add(o.activation(7), o.activation(7)))
    yield OpCase(ops.add, "itself", lambda o: ops.add(x := o.activation(33), x))
    yield OpCase(ops.multiply, "two", lambda o: ops.multiply(o.activation(3, 5), o.activation(3, 5)))
    yield OpCase(ops.scale_rows, "of tokens", lambda o: ops.scale_rows(o.activation(7), o.activation(1)))
    yield OpCase(ops.scale_rows, "of heads", lambda o: ops.scale_rows(o.activation(3, 5), o.activation(3, 1)))
    yield OpCase(ops.scale, "factor", lambda o: ops.scale(o.activation(7), factor=5.3))
    bounds = {"above": {"high": 0.4}, "below": {"low": -0.3}, "both": {"low": -0.3, "high": 0.4}}
    for label, bound in bounds.items():

        def cut(o: Operands, bound: dict[str, float] = bound) -> Outputs:
            return ops.clamp(o.activation(33), **bound)

        yield OpCase(ops.clamp, label, cut)
    yield OpCase(ops.soft_cap, "small cap", lambda o: ops.soft_cap(o.activation(33), cap=0.5))
    yield OpCase(ops.soft_cap, "large cap", lambda o: ops.soft_cap(o.activation(7), cap=30.0))
    dtypes: tuple[DType, ...] = ("float32", "bfloat16", "float16")
    for dtype in dtypes:

        def build(o: Operands, dtype: DType = dtype) -> Outputs:
            return ops.cast(o.activation(7), dtype=dtype)

        yield OpCase(ops.cast, dtype, build)


def _activations() -> Iterator[OpCase]:
    kinds: tuple[ops.elementwise.Activation, ...] = ("silu", "gelu", "gelu_tanh", "relu", "sigmoid", "softplus")
    for kind in kinds:

        def single(o: Operands, kind: ops.elementwise.Activation = kind) -> Outputs:
            return ops.activation(ops.scale(o.activation(33), factor=4.0), kind=kind)

        def gated(o: Operands, kind: ops.elementwise.Activation = kind) -> Outputs:
            return ops.gated_activation(o.activation(7), o.activation(7), kind=kind)

        yield OpCase(ops.activation, kind, single)
        yield OpCase(ops.gated_activation, kind, gated)
    yield OpCase(ops.gated_activation, "halves of one tensor", _gated_halves)


def _gated_halves(o: Operands) -> Outputs:
    gate, up = ops.split(o.activation(66), sizes=(33, 33))
    return ops.gated_activation(gate, up, kind="silu")


def _norms() -> Iterator[OpCase]:
    for shape in ((1,), (7,), (65,), (3, 5)):

        def norm(o: Operands, shape: tuple[int, ...] = shape) -> Outputs:
            return ops.rms_norm(o.activation(*shape), o.parameter(shape[-1]), eps=1e-6)

        def fused(o: Operands, shape: tuple[int, ...] = shape) -> Outputs:
            return ops.add_rms_norm(o.activation(*shape), o.activation(*shape), o.parameter(shape[-1]), eps=1e-5)

        yield OpCase(ops.rms_norm, f"shape {shape}", norm)
        yield OpCase(ops.add_rms_norm, f"shape {shape}", fused)
    yield OpCase(ops.rms_norm, "no weight", lambda o: ops.rms_norm(o.activation(33), None, eps=1e-6))
    yield OpCase(ops.rms_norm, "large eps", lambda o: ops.rms_norm(o.activation(7), o.parameter(7), eps=0.5))
    yield OpCase(
        ops.rms_norm,
        "weight offset",
        lambda o: ops.rms_norm(o.activation(7), o.parameter(7), eps=1e-6, weight_offset=1.0),
    )
    yield OpCase(
        ops.add_rms_norm,
        "weight offset",
        lambda o: ops.add_rms_norm(o.activation(7), o.activation(7), o.parameter(7), eps=1e-6, weight_offset=1.0),
    )
    for shape in ((7,), (3, 65)):

        def centred(o: Operands, shape: tuple[int, ...] = shape) -> Outputs:
            return ops.layer_norm(o.activation(*shape), o.parameter(shape[-1]), o.parameter(shape[-1]), eps=1e-5)

        yield OpCase(ops.layer_norm, f"shape {shape}", centred)
    yield OpCase(ops.layer_norm, "no weight", lambda o: ops.layer_norm(o.activation(33), None, None, eps=1e-5))
    yield OpCase(
        ops.add_rms_norm, "no weight", lambda o: ops.add_rms_norm(o.activation(7), o.activation(7), None, eps=1e-6)
    )


_FAR = ((Chunk(0, 0, 33),), (), (Chunk(0, 5, 6),), (Chunk(0, 2000, 2007), Chunk(1, 60, 63)))


def _rope_tables() -> Iterator[OpCase]:
    short, long = (1.0, 0.31, 0.011), (0.4, 0.07, 0.0013)
    yield OpCase(
        ops.rope_table, "scaled", lambda o: ops.rope_table(o.step.positions, frequencies=short, scale=1.2), _FAR
    )
    yield OpCase(
        ops.rope_table, "offset", lambda o: ops.rope_table(o.step.positions, frequencies=short, offset=-7), _FAR
    )
    yield OpCase(ops.rope_table, "one pair", lambda o: ops.rope_table(o.step.positions, frequencies=(1.0,)), _FAR)
    yield OpCase(
        ops.rope_table_longrope,
        "both sides of the limit",
        lambda o: ops.rope_table_longrope(
            o.step.positions,
            o.step.lengths,
            short_frequencies=short,
            long_frequencies=long,
            original_length=16,
            scale=1.1,
        ),
        _FAR,
    )
    yield OpCase(
        ops.rope_table_dynamic,
        "both sides of the limit",
        lambda o: ops.rope_table_dynamic(
            o.step.positions, o.step.lengths, base=10000.0, dimensions=6, factor=2.0, original_length=16
        ),
        _FAR,
    )


def _rope() -> Iterator[OpCase]:
    for rotated, size in ((2, 2), (6, 6), (6, 9)):
        for interleaved in (False, True):

            def build(
                o: Operands, rotated: int = rotated, size: int = size, interleaved: bool = interleaved
            ) -> Outputs:
                frequencies = tuple(0.5**i for i in range(rotated // 2))
                table = ops.rope_table(o.step.positions, frequencies=frequencies)
                return ops.rope(o.activation(3, size), table, interleaved=interleaved)

            order = "interleaved" if interleaved else "halves"
            yield OpCase(ops.rope, f"{rotated} of {size}, {order}", build)


def _shapes() -> Iterator[OpCase]:
    yield OpCase(ops.reshape, "heads", lambda o: ops.reshape(o.activation(15), shape=o.step.shape(3, 5)))
    yield OpCase(ops.reshape, "flat", lambda o: ops.reshape(o.activation(3, 5), shape=o.step.shape(15)))
    yield OpCase(ops.concatenate, "rows", lambda o: ops.concatenate(o.activation(7), o.activation(5)))
    yield OpCase(ops.concatenate, "heads", lambda o: ops.concatenate(o.activation(3, 1), o.activation(3, 5)))
    yield OpCase(ops.split, "uneven", lambda o: ops.split(o.activation(13), sizes=(7, 1, 5)))
    yield OpCase(ops.split, "one", lambda o: ops.split(o.activation(7), sizes=(7,)))
    yield OpCase(ops.split, "then reshape", _split_heads)
    yield OpCase(ops.take_rows, "all", lambda o: ops.take_rows(o.activation(7), o.step.logit_rows))
    yield OpCase(ops.take_rows, "of integers", _integer_rows)
    yield OpCase(ops.take_rows, "of heads", lambda o: ops.take_rows(o.activation(3, 5), o.step.logit_rows))
    yield OpCase(
        ops.take_rows,
        "rows of rows",
        lambda o: ops.take_rows(ops.take_rows(o.activation(7), o.step.logit_rows), o.step.logit_rows),
    )


def _integer_rows(o: Operands) -> Outputs:
    return ops.take_rows(Parameter((VOCABULARY, 3), dtype="int32", name="integers"), o.step.token_ids)


def _split_heads(o: Operands) -> Outputs:
    first, second = ops.split(o.activation(21), sizes=(6, 15))
    return ops.reshape(first, shape=o.step.shape(2, 3)), ops.reshape(second, shape=o.step.shape(5, 3))


MIXED = (
    (Chunk(0, 0, 1),),
    (Chunk(1, 0, 33), Chunk(2, 0, 5)),
    (),
    (Chunk(0, 1, 2), Chunk(1, 33, 34), Chunk(3, 0, 7), Chunk(2, 5, 8)),
    (Chunk(3, 7, 7), Chunk(1, 34, 61), Chunk(0, 2, 3)),
    (Chunk(0, 3, 4), Chunk(1, 61, 62), Chunk(2, 8, 9), Chunk(3, 7, 8)),
)
"""Prompts and single tokens side by side, contexts of many blocks, one sequence without a token."""


def _attention() -> Iterator[OpCase]:
    for group in (1, 3, 4):
        yield _attention_case(f"{group} query heads each", CacheSpec(2, 7, 7), group)
    for window in (1, 4, 1000):
        yield _attention_case(f"window {window}", CacheSpec(2, 5, 5, window), 3)
    yield _attention_case("soft cap", CacheSpec(2, 5, 5), 3, soft_cap=0.7)
    yield _attention_case("soft cap and window", CacheSpec(2, 5, 5, 4), 2, soft_cap=0.7)
    yield _attention_case("wider values", CacheSpec(1, 6, 9), 4)
    for block_size in (1, 16):
        yield _attention_case(f"blocks of {block_size}", CacheSpec(3, 5, 5), 1, block_size=block_size)
    yield _attention_case("one head", CacheSpec(1, 33, 33), 1)
    yield OpCase(ops.write_cache, "two caches", _two_caches, MIXED)
    yield OpCase(ops.write_cache, "overwritten", _one_cache, ((Chunk(0, 0, 7),), (Chunk(0, 3, 7),), (Chunk(0, 2, 5),)))


def _attention_case(
    label: str, spec: CacheSpec, group: int, *, soft_cap: float | None = None, block_size: int = 4
) -> OpCase:
    def build(o: Operands) -> Outputs:
        return _attend(o, spec, group, soft_cap)

    paging = PagedSteps(vocabulary=VOCABULARY, block_size=block_size)
    return OpCase(ops.attention, label, build, MIXED, paging)


def _attend(o: Operands, spec: CacheSpec, group: int, soft_cap: float | None = None) -> Tensor:
    cache, step = o.cache(spec), o.step
    keys, values = o.activation(spec.kv_heads, spec.key_dim), o.activation(spec.kv_heads, spec.value_dim)
    ops.write_cache(keys, values, cache, step.slot_mapping(cache))
    query = o.activation(spec.kv_heads * group, spec.key_dim)
    indices = (step.block_table(cache), step.sequence_starts, step.context_lengths)
    return ops.attention(query, cache, *indices, scale=0.6, soft_cap=soft_cap)


def _one_cache(o: Operands) -> Outputs:
    return _attend(o, CacheSpec(2, 3, 3), 1)


def _two_caches(o: Operands) -> Outputs:
    return _attend(o, CacheSpec(2, 3, 3), 1), _attend(o, CacheSpec(2, 3, 3), 2), _attend(o, CacheSpec(1, 5, 5, 4), 2)
