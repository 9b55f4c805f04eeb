from __future__ import annotations

import pickle
import subprocess
import sys
import tracemalloc

import numpy as np
import pytest
import torch
from gguf import quants
from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType

from modelhost.api import Encoding, PluginError, UnsupportedError
from modelhost.weights.encoding_table import Decoder, EncodingTable
from modelhost.weights.encodings import ENCODINGS

GGUF_PACKAGE = {int(kind): kind for kind in GGMLQuantizationType}
BLOCK_FORMATS = (
    *("q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "q2_k", "q3_k", "q4_k", "q5_k", "q6_k"),
    *("iq1_s", "iq1_m", "iq2_xxs", "iq2_xs", "iq2_s", "iq3_xxs", "iq3_s", "iq4_nl", "iq4_xs"),
    *("tq1_0", "tq2_0", "mxfp4", "nvfp4"),
)
BLOCKED = [record for record in ENCODINGS if record.id in BLOCK_FORMATS]
TORCH_DTYPES = {
    "f32": torch.float32,
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "f64": torch.float64,
    "f8_e4m3": torch.float8_e4m3fn,
    "f8_e5m2": torch.float8_e5m2,
    "f8_e8m0": torch.float8_e8m0fnu,
    "i8": torch.int8,
    "i16": torch.int16,
    "i32": torch.int32,
    "i64": torch.int64,
    "u8": torch.uint8,
    "u16": torch.uint16,
    "u32": torch.uint32,
    "u64": torch.uint64,
}


def by_id(record: Encoding) -> str:
    return record.id


def bits(values: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(values).view(np.uint32)


def test_every_type_that_the_gguf_package_decodes_is_declared() -> None:
    decodable = set()
    for kind, (_, size) in GGML_QUANT_SIZES.items():
        try:
            quants.dequantize(np.zeros((1, size), np.uint8), kind)
        except NotImplementedError:
            continue
        decodable.add(int(kind))
    assert decodable <= {record.gguf_type for record in ENCODINGS}
    assert len(decodable) > 20


@pytest.mark.parametrize("record", [r for r in ENCODINGS if r.gguf_type is not None], ids=by_id)
def test_block_sizes_are_those_of_ggml(record: Encoding) -> None:
    kind = GGUF_PACKAGE[record.gguf_type]
    assert (record.block_values, record.block_bytes) == GGML_QUANT_SIZES[kind]
    assert record.id == kind.name.lower()


def test_the_block_formats_are_those_declared() -> None:
    assert set(BLOCK_FORMATS) == {record.id for record in ENCODINGS if record.block_values > 1}


@pytest.mark.parametrize("record", BLOCKED, ids=by_id)
@pytest.mark.parametrize("lead", [(), (1,), (37,), (3, 5), (2, 3, 4)], ids=str)
def test_block_formats_equal_the_gguf_package_bit_for_bit(record: Encoding, lead: tuple[int, ...]) -> None:
    random = np.random.default_rng(record.gguf_type)
    blocks = random.integers(0, 256, (*lead, 3 * record.block_bytes), np.uint8)
    with np.errstate(all="ignore"):
        expected = quants.dequantize(blocks.reshape(-1, blocks.shape[-1]), GGUF_PACKAGE[record.gguf_type])
    values = Decoder(record)(blocks)
    assert values.shape == (*lead, 3 * record.block_values)
    assert np.array_equal(bits(values), bits(expected).reshape(values.shape))


def test_a_large_tensor_decodes_without_a_second_copy(encodings: EncodingTable) -> None:
    blocks = np.random.default_rng(3).integers(0, 64, (1027, 64 * 144), np.uint8)
    decode = Decoder(encodings.by_id("q4_k", "a test"))
    tracemalloc.start()
    values = decode(blocks)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1.5 * values.nbytes
    assert np.array_equal(bits(values), bits(quants.dequantize(blocks, GGMLQuantizationType.Q4_K)))


@pytest.mark.parametrize("record", ENCODINGS, ids=by_id)
def test_no_rows_decode_to_no_rows(record: Encoding) -> None:
    values = Decoder(record)(np.zeros((0, 2 * record.block_bytes), np.uint8))
    assert values.shape == (0, 2 * record.block_values)


@pytest.mark.parametrize("record", ENCODINGS, ids=by_id)
def test_rows_taken_out_of_a_larger_array_decode_alike(record: Encoding) -> None:
    wide = np.random.default_rng(0).integers(0, 2, (9, 2 * record.block_bytes + 1), np.uint8)
    part = wide[::2, 1:]
    assert np.array_equal(bits(Decoder(record)(part)), bits(Decoder(record)(part.copy())))


@pytest.mark.parametrize("id", TORCH_DTYPES)
def test_numbers_equal_torch_bit_for_bit(id: str, encodings: EncodingTable) -> None:
    record = encodings.by_id(id, "a test")
    raw = np.random.default_rng(1).integers(0, 256, (64, 8 * record.block_bytes), np.uint8)
    if record.block_bytes == 1:
        raw = np.arange(256, dtype=np.uint8).reshape(32, 8)
    expected = torch.from_numpy(raw.copy()).view(TORCH_DTYPES[id]).to(torch.float32).numpy()
    values = Decoder(record)(raw)
    finite = ~np.isnan(expected)
    assert np.array_equal(np.isnan(values), ~finite)
    assert np.array_equal(bits(values)[finite], bits(expected)[finite])


def test_booleans_decode_to_zero_and_one(encodings: EncodingTable) -> None:
    values = Decoder(encodings.by_id("bool", "a test"))(np.array([[0, 1, 1]], np.uint8))
    assert values.tolist() == [[0.0, 1.0, 1.0]]


def test_f32_is_a_view_when_aligned_and_a_copy_when_not(encodings: EncodingTable) -> None:
    decode = Decoder(encodings.by_id("f32", "a test"))
    buffer = np.zeros(65, np.uint8)[:64]
    assert np.shares_memory(decode(buffer), buffer)
    shifted = np.zeros(65, np.uint8)[1:]
    assert decode(shifted).flags.aligned


def test_a_decoder_survives_pickling(encodings: EncodingTable) -> None:
    blocks = np.random.default_rng(2).integers(0, 256, (4, 18), np.uint8)
    decode = Decoder(encodings.by_gguf_type(2, "a test"))
    assert np.array_equal(bits(pickle.loads(pickle.dumps(decode))(blocks)), bits(decode(blocks)))


def test_the_table_of_encodings_imports_neither_numpy_nor_gguf() -> None:
    code = "import sys, modelhost.weights.encodings; print(sorted({'numpy', 'gguf', 'torch'} & set(sys.modules)))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_lookups_by_every_name(encodings: EncodingTable) -> None:
    for record in ENCODINGS:
        assert encodings.by_id(record.id, "a test") is record
        if record.gguf_type is not None:
            assert encodings.by_gguf_type(record.gguf_type, "a test") is record
        if record.safetensors_dtype is not None:
            assert encodings.by_safetensors_dtype(record.safetensors_dtype, "a test") is record


@pytest.mark.parametrize(
    ("method", "key", "what"),
    [
        ("by_id", "q3_9", "encoding 'q3_9'"),
        ("by_gguf_type", 41, "GGUF type 41 (Q1_0)"),
        ("by_gguf_type", 900, "GGUF type 900"),
        ("by_safetensors_dtype", "F4", "safetensors dtype 'F4'"),
    ],
)
def test_an_unknown_encoding_is_named_with_the_tensor(
    encodings: EncodingTable, method: str, key: object, what: str
) -> None:
    with pytest.raises(UnsupportedError) as error:
        getattr(encodings, method)(key, "tensor 'a.weight'")
    assert str(error.value) == (
        f"tensor 'a.weight' has {what}, which no installed encoding reads; "
        "use a file in another format, or install a plugin that provides this encoding"
    )


@pytest.mark.parametrize(
    ("other", "claim"),
    [
        (Encoding("f32", "other.package:f32"), "id 'f32'"),
        (Encoding("mine", "other.package:mine", gguf_type=2), "GGUF type 2"),
        (Encoding("mine", "other.package:mine", safetensors_dtype="BF16"), "safetensors dtype 'BF16'"),
    ],
)
def test_two_records_with_one_claim_are_refused(other: Encoding, claim: str) -> None:
    with pytest.raises(PluginError, match=rf"\(other\.package:\w+\) both claim {claim}$"):
        EncodingTable([*ENCODINGS, other])


@pytest.mark.parametrize("target", ["modelhost.weights.nowhere:f", "modelhost.weights.decode:nothing"])
def test_a_decoder_that_cannot_be_imported_is_named(target: str) -> None:
    decode = Decoder(Encoding("mine", target))
    with pytest.raises(PluginError, match=f"^encoding 'mine': cannot import {target}: "):
        decode(np.zeros((1, 4), np.uint8))


def test_a_decoder_of_the_wrong_shape_is_named() -> None:
    decode = Decoder(Encoding("mine", "modelhost.weights.decode:f16", block_bytes=4))
    with pytest.raises(PluginError) as error:
        decode(np.zeros((3, 8), np.uint8))
    assert str(error.value) == (
        "encoding 'mine': modelhost.weights.decode:f16 must return float32 of shape (3, 2), got float32 of shape (3, 4)"
    )
