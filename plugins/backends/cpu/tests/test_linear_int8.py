"""Products of quantised rows and quantised weights, against the same quantised values in float64."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pytest
from modelhost_cpu.backend import CpuBackend
from modelhost_cpu.machine import Isa, host_target
from modelhost_cpu.settings import CpuSettings

from modelhost.api import UnsupportedError
from modelhost.api.backend import CacheLayout, Graph, Parameter, Weight
from modelhost.api.step import Step
from modelhost.graph import ops
from modelhost.testing.graphs import tracing

from .quantized_weights import PLAIN, SCALES, bfloat16_values, random_blocks, random_weight, set_factors, weight_of

Float = npt.NDArray[np.float32]
Double = npt.NDArray[np.float64]
TIERS: tuple[Isa, ...] = ("auto", "avx512vnni", "avx512", "avx2vnni", "avx2", "baseline")


def _has(isa: Isa) -> bool:
    try:
        host_target().limited(isa)
    except UnsupportedError:
        return False
    return True


TIERS_HERE = [isa for isa in TIERS if _has(isa)]


@dataclass
class Linear:
    """One projection compiled by the backend; the rows come from a table of embeddings."""

    weight: Weight
    bias: Float | None = None
    isa: Isa = "auto"
    threads: int = 1
    dtype: str = "bfloat16"

    def __call__(self, x: Float, generated: npt.ArrayLike = True) -> Float:
        """``x @ weight.T + bias``."""
        table = Weight.of_values("table", x)
        graph = Graph("linear")
        with tracing(graph):
            step = Step(graph, self.dtype)
            rows = ops.embed(step.token_ids, Parameter(x.shape, name="table"), dtype=self.dtype)
            bias = None if self.bias is None else Parameter(self.bias.shape, name="bias")
            graph.outputs = {"y": ops.linear(rows, Parameter(self.weight.shape, name="weight"), bias)}
        weights = {"table": table, "weight": self.weight}
        if self.bias is not None:
            weights["bias"] = Weight.of_values("bias", self.bias)
        settings = CpuSettings(isa=self.isa, threads=self.threads)
        backend = CpuBackend(dtype=self.dtype, settings=settings)
        executable = backend.compile(graph, lambda p: weights[p.name], CacheLayout(16, {}))
        count = len(x)
        inputs = {name: np.arange(count, dtype=np.int32) for name in graph.inputs}
        return executable.run({**inputs, "generated": np.broadcast_to(generated, count).astype(np.int32)})["y"]


def quantized(x: Float, fused: bool = True) -> Double:
    """Rows as the backend quantises them: for every 32 columns integers up to 127 and their scale."""
    blocks = x.reshape(len(x), -1, 32)
    largest = np.abs(blocks).max(-1, keepdims=True)
    small = largest < 2.0**-118
    factor = np.where(small, 0, np.float32(127) / np.where(small, 1, largest)).astype(np.float32)
    product = blocks.astype(np.float64) * factor if fused else (blocks * factor).astype(np.float64)
    scale = np.where(small, 0, largest * np.float32(1 / 127))
    return (np.rint(product) * scale.astype(np.float64)).reshape(x.shape)


def expected(x: Float, weight: Weight, bias: Float | None = None, isa: Isa = "auto") -> tuple[Double, Double]:
    """The product in float64, and the sum of the magnitudes of its terms."""
    fused = host_target().limited(isa).has("fma") or not host_target().is_x86
    rows = x.astype(np.float64) if weight.encoding in PLAIN else quantized(x, fused)
    values = weight.dequantize().astype(np.float64)
    start = np.zeros(weight.shape[0]) if bias is None else bias.astype(np.float64)
    return rows @ values.T + start, np.abs(rows) @ np.abs(values).T + np.abs(start)


def require_product(got: Float, x: Float, weight: Weight, bias: Float | None = None, isa: Isa = "auto") -> None:
    """Rounding of float32 only: one for each 16 columns and factor."""
    wanted, magnitude = expected(x, weight, bias, isa)
    minimum = 3 if len(SCALES.get(weight.encoding, ())) == 2 else 1  # scale and minimum cancel
    np.testing.assert_array_less(np.abs(got - wanted), minimum * 4e-6 * magnitude + 1e-30)


def rows_of(count: int, columns: int, seed: int = 1) -> Float:
    """Normally distributed rows of different magnitudes, exact in bfloat16."""
    generator = np.random.default_rng(seed)
    values = generator.standard_normal((count, columns)) * np.exp(generator.standard_normal((count, 1)))
    return bfloat16_values(values)


@pytest.mark.parametrize("isa", TIERS_HERE)
@pytest.mark.parametrize("encoding", [*SCALES, *PLAIN])
def test_product_of_each_encoding_and_instruction_set(encoding: str, isa: Isa) -> None:
    weight, x = random_weight(encoding, 37, 512), rows_of(13, 512)
    require_product(Linear(weight, isa=isa)(x), x, weight, isa=isa)


@pytest.mark.parametrize("encoding", ["q8_0", "q5_1", "q6_k", "bf16"])
@pytest.mark.parametrize("isa", ["auto", "avx2", "baseline"])
def test_a_row_is_the_same_in_any_number_of_rows(encoding: str, isa: Isa) -> None:
    if isa not in TIERS_HERE:
        pytest.skip(f"this machine does not have {isa}")
    linear, x = Linear(random_weight(encoding, 21, 256), isa=isa), rows_of(19, 256)
    whole = linear(x)
    require_product(whole, x, linear.weight, isa=isa)
    for count in range(1, 19):
        np.testing.assert_array_equal(linear(x[:count]), whole[:count])


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_threads_share_the_outputs(threads: int) -> None:
    weight, x = random_weight("q4_0", 1000, 96), rows_of(3, 96)
    bias = rows_of(1, 1000, seed=2)[0]
    got = Linear(weight, bias, threads=threads)(x)
    require_product(got, x, weight, bias)
    np.testing.assert_array_equal(got, Linear(weight, bias)(x))


@pytest.mark.parametrize("isa", TIERS_HERE)
@pytest.mark.parametrize("byte", [0x00, 0x7F, 0x80, 0xFF])
def test_the_largest_numbers_do_not_saturate(byte: int, isa: Isa) -> None:
    x = np.stack([np.full(256, 3.0), np.tile([2.0, -2.0], 128), np.full(256, -1.0)]).astype(np.float32)
    for encoding, places in SCALES.items():
        blocks = np.full_like(random_blocks(encoding, (16,), 256), byte)
        for place in places:
            set_factors(blocks, place, np.full(blocks.shape[:-1], 0.5))
        weight = weight_of(encoding, blocks)
        require_product(Linear(weight, isa=isa)(x), x, weight, isa=isa)


@pytest.mark.parametrize("encoding", ["q8_0", "q4_1", "q6_k"])
@pytest.mark.parametrize("factor", [6e-8, 65504.0, 0.0])
def test_denormal_huge_and_zero_scales(encoding: str, factor: float) -> None:
    blocks = random_blocks(encoding, (20,), 256)
    for place in SCALES[encoding]:
        set_factors(blocks, place, np.full(blocks.shape[:-1], factor))
    weight, x = weight_of(encoding, blocks), rows_of(5, 256)
    require_product(Linear(weight)(x), x, weight)


@pytest.mark.parametrize("isa", ["auto", "baseline"])
def test_rows_of_zeros_and_of_tiny_and_huge_numbers(isa: Isa) -> None:
    weight = random_weight("q5_0", 20, 64)
    x = np.concatenate([np.zeros((1, 64)), *(rows_of(1, 64) * scale for scale in (1e-30, 1e-39, 1e30))])
    x[0, 40] = 1.0
    x = bfloat16_values(x)
    got = Linear(weight, isa=isa)(x)
    require_product(got, x, weight, isa=isa)
    assert not got[2].any()


@pytest.mark.parametrize("isa", ["auto", "baseline"])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_number_that_is_not_finite_stays_in_its_row(bad: float, isa: Isa) -> None:
    weight, x = random_weight("q8_0", 20, 96), rows_of(3, 96)
    clean = Linear(weight, isa=isa)(x)
    x[1, 50] = bad
    got = Linear(weight, isa=isa)(x)
    assert not np.isfinite(got[1]).any()
    np.testing.assert_array_equal(got[[0, 2]], clean[[0, 2]])


def test_prompt_and_generated_rows_in_one_step() -> None:
    """A generated row is the same beside rows of a prompt, which other kernels may compute."""
    linear, x = Linear(random_weight("q4_0", 33, 128)), rows_of(9, 128)
    generated = np.arange(9) % 3 == 1
    mixed = linear(x, generated)
    np.testing.assert_array_equal(mixed[generated], linear(x[generated]))
    np.testing.assert_array_equal(mixed[~generated], linear(x[~generated], generated=False))
