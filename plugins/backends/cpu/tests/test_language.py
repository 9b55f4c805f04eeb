"""The kernel language: what functions built of it compute, against NumPy, for every tier of this CPU."""

from __future__ import annotations

import ctypes
import mmap
import multiprocessing

import numpy as np
import pytest
from modelhost_cpu.language.convert import narrow, widen
from modelhost_cpu.language.function import Function
from modelhost_cpu.language.types import (
    bf16,
    f16,
    f32,
    f64,
    i1,
    i8,
    i16,
    i32,
    i64,
    lanes_of,
    like,
    ptr,
    size_of,
    vector,
)
from modelhost_cpu.language.value import Value
from modelhost_cpu.language.vectors import each_vector, load_part, store_part
from modelhost_cpu.native.kernel import Kernel

from .kernel_language import TARGETS, Array, apply, run

LANES = (0, 1, 3, 8, 16, 17, 32)
targets = pytest.mark.parametrize("target", TARGETS)


def _typed(element: object, lanes: int) -> object:
    return vector(element, lanes) if lanes else element


def _floats(count: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(count).astype(np.float32)


def _integers(low: int, high: int, count: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).integers(low, high, count).astype(np.int32)


def float_arithmetic(k: Function, x: Value, y: Value) -> tuple[Value, ...]:
    return x + y, x - y, x * y, x / y, -x, 2.0 - x, 3.0 / x, 0.5 * x, k.maximum(x, y), k.minimum(x, y)


@targets
@pytest.mark.parametrize("lanes", LANES)
def test_float_arithmetic(target: str, lanes: int) -> None:
    x, y = _floats(12 * (lanes or 1)), _floats(12 * (lanes or 1), seed=1)
    type_ = _typed(f32, lanes)
    got = apply(target, float_arithmetic, [(type_, x), (type_, y)], [np.float32] * 10)
    half, two, three = (np.float32(number) for number in (0.5, 2, 3))
    wanted = [x + y, x - y, x * y, x / y, -x, two - x, three / x, half * x, np.maximum(x, y), np.minimum(x, y)]
    for result, expected in zip(got, wanted, strict=True):
        np.testing.assert_array_equal(result, expected)


def integer_arithmetic(k: Function, x: Value, y: Value) -> tuple[Value, ...]:
    return (
        *(x + y, x - y, x * y, -x, 7 - x, x & y, x | 12, x ^ y),
        *(x << 3, x >> 3, x.shift_right_signed(3), x // 7, x % 7, k.maximum(x, y), k.minimum(x, y)),
    )


@targets
@pytest.mark.parametrize("lanes", (0, 4, 16))
def test_integer_arithmetic(target: str, lanes: int) -> None:
    x, y = (_integers(-(2**31), 2**31, 96, seed) for seed in range(2))
    type_, unsigned = _typed(i32, lanes), x.view(np.uint32)
    got = apply(target, integer_arithmetic, [(type_, x), (type_, y)], [np.int32] * 15)
    wanted = [
        *(x + y, x - y, x * y, -x, 7 - x, x & y, x | 12, x ^ y, x << 3, (unsigned >> 3).view(np.int32), x >> 3),
        *((unsigned // 7).view(np.int32), (unsigned % 7).view(np.int32), np.maximum(x, y), np.minimum(x, y)),
    ]
    for result, expected in zip(got, wanted, strict=True):
        np.testing.assert_array_equal(result, expected)


def comparisons(k: Function, x: Value, y: Value) -> tuple[Value, ...]:
    return tuple(bit.to(i32) for bit in (x < y, x <= y, x > y, x >= y, x.equals(y), x < 1, x.equals(0)))


@targets
@pytest.mark.parametrize("lanes", (0, 16))
@pytest.mark.parametrize("kind", (np.int32, np.float32))
def test_comparisons_are_signed_and_false_for_nan(target: str, lanes: int, kind: type) -> None:
    x, y = (_integers(-2, 3, 64, seed).astype(kind) for seed in range(2))
    if kind is np.float32:
        x[::7] = np.nan
    type_ = _typed(f32 if kind is np.float32 else i32, lanes)
    got = apply(target, comparisons, [(type_, x), (type_, y)], [np.int32] * 7)
    for result, expected in zip(got, [x < y, x <= y, x > y, x >= y, x == y, x < 1, x == 0], strict=True):
        np.testing.assert_array_equal(result, expected.astype(np.int32))


def unary(k: Function, x: Value) -> tuple[Value, ...]:
    return k.sqrt(k.abs(x)), k.abs(x), k.floor(x), k.round_even(x)


@targets
def test_unary_functions(target: str) -> None:
    x = np.concatenate([_floats(1000) * 100, np.arange(-4, 4, 0.5, dtype=np.float32)])
    got = apply(target, unary, [(vector(f32, 8), x)], [np.float32] * 4)
    for result, expected in zip(got, [np.sqrt(np.abs(x)), np.abs(x), np.floor(x), np.rint(x)], strict=True):
        np.testing.assert_array_equal(result, expected)


def multiply_add(k: Function, x: Value, y: Value, z: Value) -> Value:
    return k.fma(x, y, z)


@targets
def test_fma_rounds_once_where_the_cpu_can(target: str) -> None:
    x, y, z = (_floats(512, seed) for seed in range(3))
    (got,) = apply(target, multiply_add, [(vector(f32, 16), values) for values in (x, y, z)], [np.float32])
    once = (x.astype(np.float64) * y + z).astype(np.float32)
    np.testing.assert_array_equal(got, once if TARGETS[target].has("fma") or not TARGETS[target].is_x86 else x * y + z)


def conversions(k: Function, x: Value) -> tuple[Value, ...]:
    small = x.to(i8)
    return (
        *(small.to(i32), small.to(i32, unsigned=True), x.to(i64).to(f32), x.to(f32), x.to(f64).to(f32)),
        *(x.to(f32, unsigned=True), x.to(f32).to(i32), (x > 0).to(i32), x.bits(like(x.type, f32)), k.floats(x)),
    )


@targets
@pytest.mark.parametrize("lanes", (0, 3, 16))
def test_conversions(target: str, lanes: int) -> None:
    x = _integers(-(2**24), 2**24, 48)
    kinds = [np.int32, np.int32, *[np.float32] * 4, np.int32, np.int32, np.float32, np.float32]
    got = apply(target, conversions, [(_typed(i32, lanes), x)], kinds)
    wanted = [
        *(x.astype(np.int8).astype(np.int32), x.astype(np.uint8).astype(np.int32)),
        *(x.astype(np.float32), x.astype(np.float32), x.astype(np.float32)),
        *(x.view(np.uint32).astype(np.float32), x, (x > 0).astype(np.int32), x.view(np.float32), x.astype(np.float32)),
    ]
    for result, expected in zip(got, wanted, strict=True):
        np.testing.assert_array_equal(result, expected)


def truncation(k: Function, x: Value) -> Value:
    return x.to(i32)


@targets
def test_floats_become_integers_towards_zero(target: str) -> None:
    x = _floats(256) * 50
    (got,) = apply(target, truncation, [(vector(f32, 16), x)], [np.int32])
    np.testing.assert_array_equal(got, np.trunc(x).astype(np.int32))


def widened(k: Function, x: Value, format_: str) -> Value:
    return widen(k, x, f16 if format_ == "f16" else bf16)


@targets
@pytest.mark.parametrize("lanes", (0, 4, 16))
def test_every_half_widens_as_in_numpy(target: str, lanes: int) -> None:
    bits = np.arange(1 << 16, dtype=np.uint16)
    (got,) = apply(target, widened, [(_typed(i16, lanes), bits)], [np.float32], format_="f16")
    wanted = bits.view(np.float16).astype(np.float32)
    number = ~np.isnan(wanted)
    np.testing.assert_array_equal(got[number].view(np.uint32), wanted[number].view(np.uint32))
    assert np.isnan(got[~number]).all()


@targets
@pytest.mark.parametrize("lanes", (0, 4, 16))
def test_every_bfloat16_widens_to_its_bits(target: str, lanes: int) -> None:
    bits = np.arange(1 << 16, dtype=np.uint16)
    (got,) = apply(target, widened, [(_typed(i16, lanes), bits)], [np.float32], format_="bf16")
    np.testing.assert_array_equal(got.view(np.uint32), bits.astype(np.uint32) << 16)


def narrowed(k: Function, x: Value) -> Value:
    return narrow(k, x, bf16)


@targets
@pytest.mark.parametrize("lanes", (0, 4, 8, 16))
def test_narrowing_to_bfloat16(target: str, lanes: int) -> None:
    """Every bfloat16, the points half way between two, and what lies next to those. Denormal numbers may be zero."""
    below = np.arange(1 << 16, dtype=np.uint32) << 16
    bits = (below[:, None] | np.array([0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF], np.uint32)).reshape(-1)
    (got,) = apply(target, narrowed, [(_typed(f32, lanes), bits.view(np.float32))], [np.uint16])
    x = bits.view(np.float32)
    wanted = ((bits.astype(np.uint64) + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)
    nan, denormal = np.isnan(x), np.abs(x) < 2.0**-126
    normal = ~nan & ~denormal
    np.testing.assert_array_equal(got[normal], wanted[normal])
    assert np.isnan((got[nan].astype(np.uint32) << 16).view(np.float32)).all()
    tiny = got[denormal]
    assert ((tiny == wanted[denormal]) | (tiny == wanted[denormal] & 0x8000)).all()


def test_narrowing_to_another_format_is_refused() -> None:
    def to_half(k: Function, x: Value) -> Value:
        return narrow(k, x, f16)

    with pytest.raises(ValueError, match="cannot narrow to half"):
        apply("host", to_half, [(f32, np.zeros(1, np.float32))], [np.uint16])


def lane_moves(k: Function, x: Value, y: Value) -> tuple[Value, ...]:
    lanes = lanes_of(x.type)
    turned = x.shuffle([(lane + 1) % lanes for lane in range(lanes)])
    mixed = x.shuffle([lane // 2 + lanes * (lane % 2) for lane in range(lanes)], y)
    halves = x.join(y).shuffle(range(lanes // 2, lanes // 2 + lanes))
    dynamic = x.lane(k.constant(i32, 2)).splat(lanes)
    return turned, mixed, halves, x.lane(1).splat(lanes), dynamic, x.with_lane(0, y.lane(3))


@targets
def test_lanes_move(target: str) -> None:
    x, y = np.arange(24, dtype=np.float32), np.arange(100, 124, dtype=np.float32)
    got = apply(target, lane_moves, [(vector(f32, 8), x), (vector(f32, 8), y)], [np.float32] * 6)
    a, b = x.reshape(3, 8), y.reshape(3, 8)
    both = np.concatenate([a, b], axis=1)
    wanted = [
        np.roll(a, -1, axis=1),
        np.stack([a[:, :4], b[:, :4]], axis=2),
        both[:, 4:12],
        np.repeat(a[:, 1:2], 8, axis=1),
        np.repeat(a[:, 2:3], 8, axis=1),
        np.concatenate([b[:, 3:4], a[:, 1:]], axis=1),
    ]
    for result, expected in zip(got, wanted, strict=True):
        np.testing.assert_array_equal(result, expected.reshape(-1))


def reductions(k: Function, x: Value) -> tuple[Value, ...]:
    return k.sum(x).splat(lanes_of(x.type)), k.max(x).splat(lanes_of(x.type))


def _sum_of_halves(x: Array) -> Array:
    while x.shape[1] > 1:
        half = x.shape[1] // 2
        x = x[:, :half] + x[:, half:]
    return x


@targets
@pytest.mark.parametrize("lanes", (1, 2, 8, 16, 64))
def test_reductions_have_one_order_on_every_cpu(target: str, lanes: int) -> None:
    x = _floats(512) * (10.0 ** _integers(-6, 6, 512)).astype(np.float32)
    total, highest = apply(target, reductions, [(vector(f32, lanes), x)], [np.float32] * 2)
    rows = x.reshape(-1, lanes)
    np.testing.assert_array_equal(total, np.repeat(_sum_of_halves(rows), lanes))
    np.testing.assert_array_equal(highest, np.repeat(rows.max(axis=1), lanes))


def loops(k: Kernel) -> None:
    """``y[work]``: a count, a sum by steps, a sum over pairs, and what conditions leave."""
    y = k.pointer("y")
    count, steps, pairs, odd, even = (k.variable(k.constant(i64, 0)) for _ in range(5))
    with k.loop(0, k.work) as i:
        count.add(k.integer(1))
        with k.loop(0, i) as j:
            pairs.add(i * j)
        with k.when((i % 2).equals(1)):
            odd.add(i)
        with k.unless((i % 2).equals(1)):
            even.add(i)
    with k.loop(3, k.work, 4) as i:
        steps.add(i)
    for place, variable in enumerate((count, steps, pairs, odd, even)):
        k.store(variable.value, y, 8 * place)


@targets
@pytest.mark.parametrize("n", (0, 1, 2, 3, 4, 11))
def test_loops_and_conditions(target: str, n: int) -> None:
    y = np.full(5, -1, np.int64)
    run(target, loops, {"work": n, "y": y})
    numbers = range(n)
    pairs = sum(i * j for i in numbers for j in range(i))
    assert y.tolist() == [n, sum(range(3, n, 4)), pairs, sum(numbers[1::2]), sum(numbers[::2])]


def spans(k: Kernel) -> None:
    first, last = k.span(k.chunk, 4)
    k.store(first, k.pointer("y"), k.chunk * 16)
    k.store(last, k.pointer("y"), k.chunk * 16 + 8)


def test_a_span_ends_at_the_work() -> None:
    y = np.zeros((3, 2), np.int64)
    run("host", spans, {"work": 9, "y": y}, chunks=3)
    assert y.tolist() == [[0, 4], [4, 8], [8, 9]]


def masked_copy(k: Kernel, lanes: int, element: str) -> None:
    type_ = vector({"f32": f32, "i8": i8, "i16": i16}[element], lanes)
    value = k.load_masked(type_, k.pointer("x"), k.work)
    k.store_masked(value, k.pointer("y"), k.work)
    k.store(value, k.pointer("all"))


@targets
@pytest.mark.parametrize("element", ("f32", "i8", "i16"))
@pytest.mark.parametrize("lanes", (8, 16))
def test_masked_lanes_are_neither_read_nor_written(target: str, element: str, lanes: int) -> None:
    kind = {"f32": np.float32, "i8": np.int8, "i16": np.int16}[element]
    for count in range(lanes + 1):
        x = np.arange(1, lanes + 1).astype(kind)
        y, everything = np.full(lanes, 99, kind), np.full(lanes, 99, kind)
        slots = {"work": count, "x": x, "y": y, "all": everything}
        run(target, masked_copy, slots, lanes=lanes, element=element)
        np.testing.assert_array_equal(y, np.where(np.arange(lanes) < count, x, 99))
        np.testing.assert_array_equal(everything, np.where(np.arange(lanes) < count, x, 0))


def _copy_at_the_end_of_a_page(target: str, count: int) -> None:
    """The page after the operands may not be touched."""
    page = mmap.PAGESIZE
    memory = mmap.mmap(-1, 2 * page)
    bytes_ = np.frombuffer(memory, np.uint8)
    protect = ctypes.CDLL(None, use_errno=True).mprotect
    if protect(ctypes.c_void_p(bytes_.ctypes.data + page), ctypes.c_size_t(page), 0):
        raise OSError(ctypes.get_errno(), "mprotect")
    x = bytes_[page - 4 * count : page].view(np.float32)
    x[:] = np.arange(1, count + 1)
    everything = np.zeros(16, np.float32)
    run(target, masked_copy, {"work": count, "x": x, "y": x, "all": everything}, lanes=16, element="f32")
    if everything[:count].tolist() != x.tolist():
        raise ValueError(f"copied {everything}, wanted {x}")


@targets
@pytest.mark.parametrize("count", (1, 7, 15))
def test_masked_access_stops_at_the_end_of_a_page(target: str, count: int) -> None:
    process = multiprocessing.get_context("fork").Process(target=_copy_at_the_end_of_a_page, args=(target, count))
    process.start()
    process.join(60)
    assert process.exitcode == 0


def rows_of_vectors(k: Kernel, columns: int) -> None:
    for offset, count in each_vector(k, columns):
        store_part(k, load_part(k, k.pointer("x"), offset, count) * 2.0, k.pointer("y"), offset, count)


@targets
@pytest.mark.parametrize("columns", (1, 15, 16, 17, 100))
def test_rows_are_covered_by_vectors(target: str, columns: int) -> None:
    x, y = _floats(columns), np.full(columns + 16, 99, np.float32)
    run(target, rows_of_vectors, {"work": 1, "x": x, "y": y}, columns=columns)
    np.testing.assert_array_equal(y[:columns], x * 2)
    assert (y[columns:] == 99).all()


def table_lookup(k: Function, x: Value) -> Value:
    table = k.shared_bytes("squares", np.square(np.arange(16, dtype=np.int32)).tobytes())
    return k.load(i32, table, x.to(i64) * 4)


def test_constant_bytes() -> None:
    x = np.array([3, 0, 15], np.int32)
    (got,) = apply("host", table_lookup, [(i32, x)], [np.int32])
    assert got.tolist() == [9, 0, 225]


def pointer_arithmetic(k: Kernel) -> None:
    x = k.pointer("x")
    inner = k.load(ptr, x, 8)
    k.store(k.load(f32, inner + 4, 4), k.pointer("y"))
    k.prefetch(inner)
    k.store((inner.to_integer() - k.integer(8)).to(i64), x, 16)


def test_pointers_move_by_bytes() -> None:
    numbers, y = np.array([1, 2, 3], np.float32), np.zeros(1, np.float32)
    x = np.array([0, numbers.ctypes.data, 0], np.int64)
    run("host", pointer_arithmetic, {"work": 1, "x": x, "y": y})
    assert y[0] == 3
    assert x[2] == numbers.ctypes.data - 8


@pytest.mark.parametrize(
    ("type_", "nbytes"), [(i1, 1), (bf16, 2), (f64, 8), (vector(f32, 16), 64), (vector(i8, 3), 3), (ptr, 8)]
)
def test_sizes_of_types(type_: object, nbytes: int) -> None:
    assert size_of(type_) == nbytes
