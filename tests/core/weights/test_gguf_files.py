from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gguf import GGMLQuantizationType, GGUFValueType, GGUFWriter, dequantize

from modelhost.api import CheckpointError, ConfigError, UnsupportedError, WeightError
from modelhost.weights.checkpoint import Checkpoint
from modelhost.weights.encoding_table import EncodingTable
from modelhost.weights.encodings import ENCODINGS
from modelhost.weights.open import open_checkpoint

METADATA: dict[str, tuple[GGUFValueType, Any]] = {
    "test.u8": (GGUFValueType.UINT8, 255),
    "test.i8": (GGUFValueType.INT8, -128),
    "test.u16": (GGUFValueType.UINT16, 65535),
    "test.i16": (GGUFValueType.INT16, -32768),
    "test.u32": (GGUFValueType.UINT32, 2**32 - 1),
    "test.i32": (GGUFValueType.INT32, -(2**31)),
    "test.f32": (GGUFValueType.FLOAT32, 0.15625),
    "test.true": (GGUFValueType.BOOL, True),
    "test.false": (GGUFValueType.BOOL, False),
    "test.string": (GGUFValueType.STRING, "naïve 漢字 🙂"),
    "test.u64": (GGUFValueType.UINT64, 2**64 - 1),
    "test.i64": (GGUFValueType.INT64, -(2**63)),
    "test.f64": (GGUFValueType.FLOAT64, 0.1),
    "test.ints": (GGUFValueType.ARRAY, [3, -1, 2]),
    "test.floats": (GGUFValueType.ARRAY, [0.5, -0.25]),
    "test.bools": (GGUFValueType.ARRAY, [True, False, True]),
    "test.strings": (GGUFValueType.ARRAY, ["", "a", "▁the", "\n"]),
    "test.nested": (GGUFValueType.ARRAY, [[1, 2], [3], [[4], [5, 6]][0]]),
    "test.nested_strings": (GGUFValueType.ARRAY, [["a", "b"], ["c"]]),
}


def write(path: Path, tensors: dict[str, Any], *, split: int = 0, metadata: bool = True) -> Path:
    """Write tensors (float arrays, or a pair of raw blocks and their type) with the ``gguf`` package."""
    writer = GGUFWriter(path, "llama", split_max_tensors=split)
    for key, (kind, value) in METADATA.items() if metadata else ():
        writer.add_key_value(key, value, kind)
    for name, tensor in tensors.items():
        if isinstance(tensor, tuple):
            writer.add_tensor(name, tensor[0], raw_dtype=tensor[1])
        else:
            writer.add_tensor(name, tensor)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@pytest.fixture(scope="module")
def tensors() -> dict[str, Any]:
    random = np.random.default_rng(0)
    written: dict[str, Any] = {
        "one": random.standard_normal(7, np.float32),
        "two": random.standard_normal((3, 5)).astype(np.float16),
        "three": random.standard_normal((2, 3, 4)),
        "four": random.integers(-9, 9, (2, 1, 3, 4), np.int32),
    }
    for record in ENCODINGS:
        if record.gguf_type is not None and record.block_values > 1:
            blocks = random.integers(0, 256, (3, 2 * record.block_bytes), np.uint8)
            written[f"blocks.{record.id}"] = blocks, GGMLQuantizationType(record.gguf_type)
    return written


@pytest.fixture
def opened(tmp_path: Path, tensors: dict[str, Any], encodings: EncodingTable) -> Checkpoint:
    return open_checkpoint(write(tmp_path / "model.gguf", tensors), encodings)


def check_tensors(checkpoint: Checkpoint, tensors: dict[str, Any]) -> None:
    assert checkpoint.names() == list(tensors)
    for name, tensor in tensors.items():
        weight = checkpoint.weight(name)
        assert name in checkpoint
        assert (weight.name, weight.encoding) == (name, checkpoint.encoding_of(name))
        if isinstance(tensor, tuple):
            assert np.array_equal(weight.blocks, tensor[0])
            with np.errstate(all="ignore"):
                tensor = dequantize(*tensor)
        assert weight.shape == checkpoint.shape_of(name) == tensor.shape
        assert np.array_equal(weight.dequantize(), tensor.astype(np.float32), equal_nan=True)


def test_all_metadata_types_come_back(opened: Checkpoint) -> None:
    for key, (_, value) in METADATA.items():
        assert opened.config[key] == value, key
        assert type(opened.config[key]) is type(value)
    assert set(opened.config) == {*METADATA, "general.architecture"}
    assert len(opened.config) == len(METADATA) + 1
    assert opened.config.get("absent") is None
    assert opened.config["test.nested"][2] == [4]
    assert all(type(item) is bool for item in opened.config["test.bools"])


def test_all_tensors_come_back(opened: Checkpoint, tensors: dict[str, Any]) -> None:
    check_tensors(opened, tensors)
    assert opened.nbytes == sum((t[0] if isinstance(t, tuple) else t).nbytes for t in tensors.values())
    assert opened.format == "gguf"
    assert opened.architecture == "llama"
    assert opened.encoding_of("two") == "f16"
    assert opened.encoding_of("blocks.iq2_xxs") == "iq2_xxs"


def test_weights_are_read_only_views(opened: Checkpoint) -> None:
    blocks = opened.weight("one").blocks
    assert np.shares_memory(blocks, opened.weight("one").blocks)
    assert not blocks.flags.writeable


def test_weights_and_metadata_outlive_the_checkpoint(opened: Checkpoint, tensors: dict[str, Any]) -> None:
    weight = opened.weight("one")
    with opened:
        pass
    assert np.array_equal(weight.dequantize(), tensors["one"])
    assert opened.config["test.strings"] == METADATA["test.strings"][1]
    with pytest.raises(CheckpointError) as error:
        opened.weight("one")
    assert str(error.value) == (
        f"{opened.path}: tensor 'one' was asked for after the checkpoint was closed. Open it again."
    )


def test_an_unknown_tensor_is_answered_with_close_names(opened: Checkpoint) -> None:
    with pytest.raises(WeightError) as error:
        opened.weight("blocks.q4_9")
    assert str(error.value).startswith(f"{opened.path} has no tensor 'blocks.q4_9'. Close names: blocks.q4_")


@pytest.mark.parametrize("version", [2, 3])
def test_both_versions_open(version: int, tmp_path: Path, gguf_bytes: Any, encodings: EncodingTable) -> None:
    path = tmp_path / "model.gguf"
    row = gguf_bytes.tensor(b"a", [2], 0, 0)
    path.write_bytes(gguf_bytes.file([gguf_bytes.architecture()], [row], struct.pack("<2f", 1, 2), version=version))
    assert open_checkpoint(path, encodings).weight("a").dequantize().tolist() == [1, 2]


def test_a_scalar_and_an_empty_tensor(tmp_path: Path, gguf_bytes: Any, encodings: EncodingTable) -> None:
    path = tmp_path / "model.gguf"
    rows = [gguf_bytes.tensor(b"scalar", [], 0, 0), gguf_bytes.tensor(b"empty", [0, 3], 0, 32)]
    path.write_bytes(gguf_bytes.file([], rows, struct.pack("<f", 5) + b"\0" * 28))
    checkpoint = open_checkpoint(path, encodings)
    assert checkpoint.weight("scalar").dequantize() == np.float32(5)
    assert checkpoint.weight("scalar").dequantize().shape == ()
    assert checkpoint.weight("empty").dequantize().shape == (3, 0)


def test_a_stated_alignment_is_used(tmp_path: Path, gguf_bytes: Any, encodings: EncodingTable) -> None:
    path = tmp_path / "model.gguf"
    keys = [gguf_bytes.key(b"general.alignment", 4, struct.pack("<I", 8))]
    row = gguf_bytes.tensor(b"a", [1], 0, 8)
    path.write_bytes(gguf_bytes.file(keys, [row], b"\0" * 8 + struct.pack("<f", 3), alignment=8))
    assert open_checkpoint(path, encodings).weight("a").dequantize().tolist() == [3]


def test_sampling_defaults_get_their_hugging_face_names(tmp_path: Path, encodings: EncodingTable) -> None:
    writer = GGUFWriter(tmp_path / "model.gguf", "llama")
    writer.add_float32("general.sampling.temp", 0.5)
    writer.add_int32("general.sampling.top_k", 20)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    checkpoint = open_checkpoint(tmp_path / "model.gguf", encodings)
    assert checkpoint.generation_config == {"temperature": 0.5, "top_k": 20}
    assert checkpoint.names() == []


def test_a_missing_architecture_names_the_field(tmp_path: Path, gguf_bytes: Any, encodings: EncodingTable) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(gguf_bytes.file())
    with pytest.raises(ConfigError) as error:
        _ = open_checkpoint(path, encodings).architecture
    assert str(error.value) == (
        f"{path}: the field 'general.architecture' in its metadata must name the model's architecture, got None. "
        "Use a checkpoint that states it, or add the field."
    )


def test_an_unsupported_encoding_is_refused_when_its_tensor_is_used(
    tmp_path: Path, gguf_bytes: Any, encodings: EncodingTable
) -> None:
    path = tmp_path / "model.gguf"
    rows = [gguf_bytes.tensor(b"good", [1], 0, 0), gguf_bytes.tensor(b"odd", [64], 41, 32)]
    path.write_bytes(gguf_bytes.file([], rows, b"\0" * 64))
    checkpoint = open_checkpoint(path, encodings)
    assert checkpoint.weight("good").shape == (1,)
    assert checkpoint.shape_of("odd") == (64,)
    for use in (lambda: checkpoint.weight("odd"), lambda: checkpoint.encoding_of("odd"), lambda: checkpoint.nbytes):
        with pytest.raises(UnsupportedError) as error:
            use()
        assert str(error.value) == (
            f"{path}: tensor 'odd' has GGUF type 41 (Q1_0), which no installed encoding reads; "
            "use a file in another format, or install a plugin that provides this encoding"
        )


class TestSplitSets:
    @pytest.fixture
    def shards(self, tmp_path: Path, tensors: dict[str, Any]) -> list[Path]:
        write(tmp_path / "model.gguf", tensors, split=-(-len(tensors) // 3))
        paths = sorted(tmp_path.glob("*.gguf"))
        assert [path.name for path in paths] == [f"model-0000{n}-of-00003.gguf" for n in (1, 2, 3)]
        return paths

    @pytest.mark.parametrize("number", [0, 1, 2])
    def test_any_file_opens_the_set(
        self, number: int, shards: list[Path], tensors: dict[str, Any], encodings: EncodingTable
    ) -> None:
        checkpoint = open_checkpoint(shards[number], encodings)
        check_tensors(checkpoint, tensors)
        assert checkpoint.architecture == "llama"
        assert checkpoint.config["test.string"] == METADATA["test.string"][1]

    def test_the_directory_opens_the_set(
        self, shards: list[Path], tensors: dict[str, Any], encodings: EncodingTable
    ) -> None:
        check_tensors(open_checkpoint(shards[0].parent, encodings), tensors)

    def test_a_missing_file_is_named(self, shards: list[Path], encodings: EncodingTable) -> None:
        shards[1].unlink()
        with pytest.raises(CheckpointError) as error:
            open_checkpoint(shards[0], encodings)
        assert str(error.value) == (
            f"{shards[0]} belongs to a set of 3 files, 1 missing: model-00002-of-00003.gguf. "
            "Download them into the same directory."
        )

    def test_a_renamed_file_is_refused(self, shards: list[Path], encodings: EncodingTable) -> None:
        renamed = shards[0].rename(shards[0].with_name("other.gguf"))
        with pytest.raises(CheckpointError) as error:
            open_checkpoint(renamed, encodings)
        assert str(error.value) == (
            f"{renamed} belongs to a set of 3 files (split.count), which must be named like NAME-00001-of-00003.gguf. "
            "Give the files their original names."
        )

    def test_a_file_in_the_place_of_another_is_refused(self, shards: list[Path], encodings: EncodingTable) -> None:
        shards[2].write_bytes(shards[1].read_bytes())
        with pytest.raises(CheckpointError) as error:
            open_checkpoint(shards[0], encodings)
        assert str(error.value) == (
            f"{shards[2]} states split.no 1 and split.count 3, but its name says 2 and 3. "
            "The file is corrupt or incomplete: download it again."
        )

    def split_file(self, gguf_bytes: Any, number: int, total_tensors: int, name: bytes) -> bytes:
        keys = [
            gguf_bytes.key(b"split.no", 2, struct.pack("<H", number)),
            gguf_bytes.key(b"split.count", 2, struct.pack("<H", 2)),
            gguf_bytes.key(b"split.tensors.count", 5, struct.pack("<i", total_tensors)),
        ]
        return gguf_bytes.file(keys, [gguf_bytes.tensor(name, [1], 0, 0)], b"\0" * 4)

    def test_a_wrong_total_of_tensors_is_refused(
        self, tmp_path: Path, gguf_bytes: Any, encodings: EncodingTable
    ) -> None:
        paths = [tmp_path / f"m-0000{number}-of-00002.gguf" for number in (1, 2)]
        for number, path in enumerate(paths):
            path.write_bytes(self.split_file(gguf_bytes, number, 5, b"t%d" % number))
        with pytest.raises(CheckpointError) as error:
            open_checkpoint(paths[1], encodings)
        assert str(error.value) == (
            f"{paths[0]} states split.tensors.count 5, but the 2 files have 2 tensors. "
            "The file is corrupt or incomplete: download it again."
        )

    def test_a_tensor_in_two_files_is_refused(self, tmp_path: Path, gguf_bytes: Any, encodings: EncodingTable) -> None:
        paths = [tmp_path / f"m-0000{number}-of-00002.gguf" for number in (1, 2)]
        for number, path in enumerate(paths):
            path.write_bytes(self.split_file(gguf_bytes, number, 2, b"same"))
        with pytest.raises(CheckpointError) as error:
            open_checkpoint(paths[0], encodings)
        assert str(error.value) == (
            f"{paths[1]} has the tensor 'same', which m-00001-of-00002.gguf has too. "
            "The file is corrupt or incomplete: download it again."
        )
