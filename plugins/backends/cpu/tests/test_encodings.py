"""Packed weights decode to what the checkpoint's decoder says, bit for bit; what cannot be packed is refused."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from modelhost_cpu.encodings.packing import ROWS, Packing, decode_columns, padded_columns
from modelhost_cpu.encodings.registry import packings
from modelhost_cpu.native.compiler import Compiler
from modelhost_cpu.native.kernel import Kernel
from modelhost_cpu.native.pool import ThreadPool
from modelhost_cpu.weights import StoredWeight, WeightStore, group_bytes, stored_bytes

from modelhost.api import WeightError
from modelhost.api.backend import Parameter, Weight

from .kernel_language import TARGETS, run
from .quantized_weights import PLAIN, SCALES, block_sizes, random_blocks, random_weight, set_factors, weight_of

Float = npt.NDArray[np.float32]
ENCODINGS = [*SCALES, *PLAIN]
FORMATS = ("host", "baseline") if "baseline" in TARGETS else ("host",)


@cache
def _store(target: str = "host", threads: int = 1, exact: bool = True) -> WeightStore:
    compiler = Compiler(TARGETS[target], None)
    return WeightStore(compiler, ThreadPool(compiler, threads), exact)


def stored(weight: Weight, target: str = "host", threads: int = 1, exact: bool = True) -> StoredWeight:
    """The weight as the backend loads it."""
    return _store(target, threads, exact).store(Parameter(weight.shape, name=weight.name), weight)


def all_columns(k: Kernel, packing: Packing, width: int) -> None:
    """Kernel: the columns of every group."""
    with k.loop(0, k.work) as group:
        panel = k.pointer("values") + group * (padded_columns(packing, width) * 4 * ROWS)
        decode_columns(k, packing, k.pointer("weight") + group * group_bytes(packing, width), width, panel)


def all_rows(k: Kernel, packing: Packing, width: int) -> None:
    """Kernel: row after row, each filled up to whole blocks."""
    padded = padded_columns(packing, width)
    with k.loop(0, k.work) as row, k.loop(0, padded // packing.block) as block:
        group = k.pointer("weight") + row // ROWS * group_bytes(packing, width)
        with k.loop(0, packing.block // packing.part) as part:
            place = row * padded + block * packing.block + part * packing.part
            k.store(
                packing.row(k, group + block * packing.block_bytes, row % ROWS, part), k.pointer("values"), place * 4
            )


def decoded_columns(weight: StoredWeight, target: str = "host") -> Float:
    """The values of a stored weight, decoded column by column."""
    width, packing = weight.shape[-1], weight.packing
    assert packing is not None
    groups = weight.nbytes // group_bytes(packing, width)
    raw = np.zeros(groups * padded_columns(packing, width) * ROWS + 16, np.float32)
    values = raw[-(raw.ctypes.data // 4) % 16 :][: raw.size - 16]
    run(target, all_columns, {"work": groups, "weight": weight.memory, "values": values}, packing=packing, width=width)
    matrices = np.prod(weight.shape[:-2], dtype=int)
    interleaved = values.reshape(matrices, groups // matrices, -1, ROWS)[:, :, :width]
    rows = interleaved.swapaxes(2, 3).reshape(matrices, -1, width)[:, : weight.shape[-2]]
    return rows.reshape(weight.shape)


def decoded_rows(weight: StoredWeight, target: str = "host") -> Float:
    """The values of a stored matrix, decoded row by row."""
    (rows, width), packing = weight.shape, weight.packing
    assert packing is not None
    values = np.zeros((rows, padded_columns(packing, width)), np.float32)
    run(target, all_rows, {"work": rows, "weight": weight.memory, "values": values}, packing=packing, width=width)
    return values[:, :width]


def test_every_block_format_of_real_files_has_a_packing() -> None:
    assert set(packings()) == set(ENCODINGS)


@pytest.mark.parametrize("target", FORMATS)
@pytest.mark.parametrize("encoding", ENCODINGS)
def test_columns_and_rows_are_the_decoded_values(encoding: str, target: str) -> None:
    for rows in (1, 16, 37):
        weight = random_weight(encoding, rows, 512, seed=rows)
        packed = stored(weight, target)
        np.testing.assert_array_equal(decoded_columns(packed, target), weight.dequantize())
        np.testing.assert_array_equal(decoded_rows(packed, target), weight.dequantize())


@pytest.mark.parametrize("encoding", PLAIN)
@pytest.mark.parametrize("columns", [1, 7, 33])
def test_plain_values_of_odd_widths(encoding: str, columns: int) -> None:
    weight = random_weight(encoding, 19, columns)
    np.testing.assert_array_equal(decoded_columns(stored(weight)), weight.dequantize())
    np.testing.assert_array_equal(decoded_rows(stored(weight)), weight.dequantize())


@pytest.mark.parametrize("encoding", list(SCALES))
def test_a_packed_weight_is_hardly_larger(encoding: str) -> None:
    parameter, weight = Parameter((64, 512), name="weight"), random_weight(encoding, 64, 512)
    assert stored(weight).nbytes == stored_bytes(parameter, encoding, exact=True)
    assert weight.nbytes <= stored(weight).nbytes <= 1.05 * weight.nbytes


@st.composite
def _blocks(draw: st.DrawFn) -> tuple[str, npt.NDArray[np.uint8]]:
    """Two rows of a block of any bits but those of factors that are not finite."""
    encoding = draw(st.sampled_from(sorted(SCALES)))
    _, nbytes = block_sizes(encoding)
    blocks = np.frombuffer(draw(st.binary(min_size=2 * nbytes, max_size=2 * nbytes)), np.uint8).reshape(2, 1, -1).copy()
    for place in SCALES[encoding]:
        set_factors(
            blocks, place, [[draw(st.floats(width=16, allow_nan=False, allow_infinity=False))] for _ in range(2)]
        )
    return encoding, blocks


@settings(deadline=None, max_examples=60)
@given(_blocks())
def test_any_finite_block(encoded: tuple[str, npt.NDArray[np.uint8]]) -> None:
    weight = weight_of(*encoded)
    np.testing.assert_array_equal(decoded_columns(stored(weight)), weight.dequantize())


@pytest.mark.parametrize("target", FORMATS)
@pytest.mark.parametrize("factor", [6e-8, -6e-8, 6.1e-5, 0.0, -0.0, 65504.0, -65504.0])
def test_denormal_zero_and_huge_factors(factor: float, target: str) -> None:
    for encoding, places in SCALES.items():
        blocks = random_blocks(encoding, (3,), 256)
        for place in places:
            set_factors(blocks, place, np.full(blocks.shape[:-1], factor))
        weight = weight_of(encoding, blocks)
        np.testing.assert_array_equal(decoded_columns(stored(weight, target), target), weight.dequantize())


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("encoding", list(SCALES))
def test_factors_that_are_not_finite_are_refused(encoding: str, bad: float) -> None:
    values, _ = block_sizes(encoding)
    for place in SCALES[encoding]:
        blocks = random_blocks(encoding, (21,), 3 * values)
        blocks[...] |= 1  # no integer scale hides it
        set_factors(blocks, place, np.ones(blocks.shape[:-1]))
        set_factors(blocks[17, 2:], place, [bad])
        with pytest.raises(WeightError, match=rf"tensor 'blk.0' .* row 17 from column {2 * values} on"):
            stored(replace(weight_of(encoding, blocks), name="blk.0"))


def test_the_place_of_a_bad_factor_counts_the_pieces_before() -> None:
    blocks = random_blocks("q4_0", (5,), 64)
    set_factors(blocks[4, 1:], 0, [np.nan])
    pieces = (weight_of("q4_0", random_blocks("q4_0", (30,), 64), "q"), weight_of("q4_0", blocks, "k"))
    with pytest.raises(WeightError, match="row 34 from column 32 on"):
        stored(replace(pieces[0], name="qk", shape=(35, 64), blocks=pieces))


@pytest.mark.parametrize("encoding", ["q5_0", "q6_k", "bf16", "f32", "iq4_nl", "mxfp4"])
@pytest.mark.parametrize("threads", [1, 3])
def test_pieces_are_packed_as_one(encoding: str, threads: int) -> None:
    pieces = tuple(random_weight(encoding, rows, 256, seed=rows) for rows in (5, 130, 16, 40))
    joined = replace(pieces[0], shape=(191, 256), blocks=pieces)
    values = np.concatenate([piece.dequantize() for piece in pieces])
    np.testing.assert_array_equal(decoded_columns(stored(joined, threads=threads)), values)


@pytest.mark.parametrize("encoding", ["q8_0", "q4_k", "f16", "iq4_nl"])
def test_every_matrix_of_a_stack_starts_with_a_group(encoding: str) -> None:
    weight = weight_of(encoding, random_blocks(encoding, (3, 19), 256))
    packed = stored(weight)
    assert packed.matrix_bytes * 3 == packed.nbytes
    np.testing.assert_array_equal(decoded_columns(packed), weight.dequantize())


def test_rows_that_do_not_follow_each_other() -> None:
    weight = random_weight("q4_1", 48, 128)
    reordered = replace(weight, blocks=weight.blocks[::-2], shape=(24, 128))
    np.testing.assert_array_equal(decoded_columns(stored(reordered)), weight.dequantize()[::-2])


@pytest.mark.parametrize("encoding", ["f32", "iq4_nl", "mxfp4"])
def test_float32_becomes_the_nearest_bfloat16_unless_exact(encoding: str) -> None:
    if encoding == "f32":
        weight = Weight.of_values("weight", np.random.default_rng(0).standard_normal((21, 65), np.float32))
    else:
        weight = random_weight(encoding, 21, 64)
    bits = weight.dequantize().view(np.uint32)
    nearest = (bits + 0x7FFF + ((bits >> 16) & 1)) & np.uint32(0xFFFF0000)
    np.testing.assert_array_equal(decoded_columns(stored(weight, exact=False)), nearest.view(np.float32))
    np.testing.assert_array_equal(decoded_columns(stored(weight, exact=True)), weight.dequantize())
