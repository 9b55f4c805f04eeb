"""Products of prompt rows in bfloat16, against the same rounded values in float64."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from modelhost_cpu.kernels.bfloat16_tiles import pack_rows, packed_row_bytes
from modelhost_cpu.machine import host_target

from modelhost.api.backend import Weight

from .kernel_language import TARGETS, run
from .quantized_weights import PLAIN, SCALES, random_weight
from .test_linear_int8 import TIERS_HERE, Linear, require_product, rows_of

Float = npt.NDArray[np.float32]
Double = npt.NDArray[np.float64]

needs_tiles = pytest.mark.skipif(not host_target().has("amx-bf16"), reason="this machine has no AMX with bfloat16")


def _cut(bits: npt.NDArray[np.uint32]) -> Float:
    return (bits & np.uint32(0xFFFF0000)).view(np.float32)


def nearest(x: Float) -> Float:
    """The nearest bfloat16 numbers; ties to even."""
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32)
    return _cut(bits + (((bits >> 16) & 1) + 0x7FFF))


def rounded(weight: Weight) -> Float:
    """The values of a matrix as the kernels round them: of quantised ones, ties go away from zero in even columns and
    towards zero in odd ones.
    """
    values = weight.dequantize()
    if weight.encoding in PLAIN:
        return nearest(values)
    return _cut(
        np.ascontiguousarray(values, np.float32).view(np.uint32)
        + np.where(np.arange(values.shape[-1]) % 2, 0x7FFF, 0x8000).astype(np.uint32)
    )


def product(x: Float, weight: Weight, bias: Float | None = None) -> tuple[Double, Double]:
    """The product in float64, and the sum of the magnitudes of its terms."""
    rows, values = nearest(x).astype(np.float64), rounded(weight).astype(np.float64)
    start = np.zeros(weight.shape[0]) if bias is None else bias.astype(np.float64)
    return rows @ values.T + start, np.abs(rows) @ np.abs(values).T + np.abs(start)


def require_tiles(got: Float, x: Float, weight: Weight, bias: Float | None = None) -> None:
    """Rounding of float32 sums only."""
    wanted, magnitude = product(x, weight, bias)
    np.testing.assert_array_less(np.abs(got - wanted), 2e-6 * magnitude + 1e-30)


def of_prompt(linear: Linear, x: Float) -> Float:
    """The product, of prompt rows."""
    return linear(x, generated=False)


@needs_tiles
@pytest.mark.parametrize("encoding", [*SCALES, *PLAIN])
def test_product_of_each_encoding(encoding: str) -> None:
    weight, x = random_weight(encoding, 37, 512), rows_of(35, 512) * np.float32(1.001)
    require_tiles(of_prompt(Linear(weight), x), x, weight)


@needs_tiles
@pytest.mark.parametrize("encoding", PLAIN)
@pytest.mark.parametrize("shape", [(1, 1), (5, 7), (16, 33), (33, 31), (3, 1100), (50, 1025)])
def test_any_number_of_columns_and_outputs(encoding: str, shape: tuple[int, int]) -> None:
    weight, x = random_weight(encoding, *shape), rows_of(19, shape[1])
    bias = rows_of(1, shape[0], seed=2)[0]
    require_tiles(of_prompt(Linear(weight, bias), x), x, weight, bias)


@needs_tiles
@pytest.mark.parametrize(("encoding", "columns"), [("q5_0", 1056), ("q8_0", 2176), ("q4_k", 2304), ("q6_k", 1280)])
def test_columns_of_several_blocks(encoding: str, columns: int) -> None:
    weight, x, bias = random_weight(encoding, 70, columns), rows_of(40, columns), rows_of(1, 70, seed=2)[0]
    require_tiles(of_prompt(Linear(weight, bias), x), x, weight, bias)


@needs_tiles
@pytest.mark.parametrize(("encoding", "columns"), [("q8_0", 608), ("bf16", 1030)])
def test_a_row_is_the_same_in_any_number_of_rows(encoding: str, columns: int) -> None:
    """More rows than a slab has, and parts of pairs of tiles."""
    weight, x, bias = random_weight(encoding, 49, columns), rows_of(1070, columns), rows_of(1, 49, seed=2)[0]
    linear = Linear(weight, bias)
    whole = of_prompt(linear, x)
    require_tiles(whole, x, weight, bias)
    for count in (1, 2, 15, 16, 17, 31, 32, 33, 65, 512, 513, 1024):
        np.testing.assert_array_equal(of_prompt(linear, x[:count]), whole[:count])
    np.testing.assert_array_equal(of_prompt(linear, x[::-1]), whole[::-1])


@needs_tiles
@pytest.mark.parametrize("columns", [96, 1120])
def test_prompt_rows_between_generated_ones(columns: int) -> None:
    linear, x = Linear(random_weight("q5_0", 64, columns)), rows_of(90, columns)
    prompt, generated = of_prompt(linear, x), linear(x)
    for share in (0.05, 0.5, 0.95):
        flags = np.random.default_rng(3).random(90) < share
        np.testing.assert_array_equal(linear(x, flags), np.where(flags[:, None], generated, prompt))


@needs_tiles
@pytest.mark.parametrize("threads", [2, 3])
def test_threads_share_the_outputs(threads: int) -> None:
    weight, x, bias = random_weight("q4_0", 1000, 1088), rows_of(100, 1088), rows_of(1, 1000, seed=2)[0]
    got = of_prompt(Linear(weight, bias, threads=threads), x)
    np.testing.assert_array_equal(got, of_prompt(Linear(weight, bias), x))


@needs_tiles
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_number_that_is_not_finite_stays_in_its_row(bad: float) -> None:
    linear, x = Linear(random_weight("q8_0", 40, 96)), rows_of(35, 96)
    clean = of_prompt(linear, x)
    x[17, 50] = bad
    got = of_prompt(linear, x)
    assert not np.isfinite(got[17]).any()
    others = np.arange(35) != 17
    np.testing.assert_array_equal(got[others], clean[others])


@needs_tiles
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_weight_that_is_not_finite_stays_in_its_output(bad: float) -> None:
    values, x = rows_of(33, 70), rows_of(20, 70)
    clean = of_prompt(Linear(Weight.of_values("weight", values)), x)
    values[18, 69] = bad
    got = of_prompt(Linear(Weight.of_values("weight", values)), x)
    assert not np.isfinite(got[:, 18]).any()
    others = np.arange(33) != 18
    np.testing.assert_array_equal(got[:, others], clean[:, others])


@pytest.mark.parametrize("isa", [isa for isa in TIERS_HERE if isa not in ("auto", "amx")])
@pytest.mark.parametrize("encoding", ["q5_0", "bf16"])
def test_without_tiles_prompt_rows_take_the_path_of_generated_ones(encoding: str, isa: str) -> None:
    weight, x = random_weight(encoding, 37, 128), rows_of(35, 128)
    linear = Linear(weight, isa=isa)  # type: ignore[arg-type]
    got = of_prompt(linear, x)
    require_product(got, x, weight, isa=isa)  # type: ignore[arg-type]
    np.testing.assert_array_equal(got, linear(x))


@needs_tiles
def test_float32_does_not_round_to_bfloat16() -> None:
    weight, x = random_weight("q5_0", 37, 128), rows_of(35, 128) * np.float32(1.001)
    wanted = x.astype(np.float64) @ weight.dequantize().astype(np.float64).T
    got = of_prompt(Linear(weight, dtype="float32"), x)
    np.testing.assert_allclose(got, wanted, rtol=0, atol=2e-6 * np.abs(wanted).max())


@pytest.mark.parametrize("target", [name for name in TARGETS if name in ("host", "avx512", "without avx512bf16")])
@pytest.mark.parametrize("columns", [1, 33, 96])
def test_packed_rows(columns: int, target: str) -> None:
    """``[step][row][32 columns]``, the nearest bfloat16 numbers, zeros beyond the last column."""
    x, rows = rows_of(30, columns) * np.float32(1.001), np.array([3, 4, 9, 29], np.int32)
    memory = np.full(len(rows) * packed_row_bytes(columns) + 64, 0xFF, np.uint8)
    packed = memory[-memory.ctypes.data % 64 :][: len(rows) * packed_row_bytes(columns)]
    slots = {"work": len(rows), "x": x, "y": packed, "rows": rows}
    run(target, pack_rows, {**slots, "inputs": columns, "width": columns, "stride": 4 * columns})
    steps = -(-columns // 32)
    wanted = np.zeros((len(rows), steps * 32), np.float32)
    wanted[:, :columns] = nearest(x[rows])
    bits = (wanted.view(np.uint32) >> 16).astype(np.uint16).reshape(len(rows), steps, 32)
    np.testing.assert_array_equal(packed.view(np.uint16).reshape(steps, len(rows), 32), bits.transpose(1, 0, 2))
