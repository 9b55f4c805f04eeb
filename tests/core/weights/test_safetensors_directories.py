from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from modelhost.api import CheckpointError, ConfigError, UnsupportedError
from modelhost.weights.checkpoint import Checkpoint
from modelhost.weights.encoding_table import EncodingTable
from modelhost.weights.open import open_checkpoint

AGAIN = ". The file is corrupt or incomplete: download it again."
DTYPES = {
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
    "bool": torch.bool,
}


@pytest.fixture(scope="module")
def tensors() -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    tensors = {}
    for id, dtype in DTYPES.items():
        values = torch.randint(1, 2, (3, 5), generator=generator)
        if dtype.is_floating_point and id != "f8_e8m0":
            values = torch.randn(3, 5, generator=generator)
        tensors[id] = values.to(dtype)
    tensors["vector"] = torch.randn(7, generator=generator)
    tensors["scalar"] = torch.tensor(2.5)
    tensors["empty"] = torch.zeros(0, 4)
    tensors["cube"] = torch.randn(2, 3, 4, generator=generator).bfloat16()
    return tensors


def check(checkpoint: Checkpoint, tensors: dict[str, torch.Tensor]) -> None:
    assert sorted(checkpoint.names()) == sorted(tensors)
    for name, tensor in tensors.items():
        weight = checkpoint.weight(name)
        assert weight.shape == checkpoint.shape_of(name) == tuple(tensor.shape)
        assert weight.encoding == checkpoint.encoding_of(name)
        assert weight.nbytes == tensor.nbytes
        assert np.array_equal(weight.dequantize(), tensor.to(torch.float32).numpy())


def write_sharded(path: Path, tensors: dict[str, torch.Tensor], **changes: str) -> dict[str, str]:
    weight_map = {}
    for number, names in enumerate([list(tensors)[::2], list(tensors)[1::2]], start=1):
        file = f"model-0000{number}-of-00002.safetensors"
        save_file({name: tensors[name] for name in names}, path / file)
        weight_map |= dict.fromkeys(names, file)
    weight_map |= changes
    (path / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))
    return weight_map


def test_a_single_file_written_by_torch(
    model_dir: Path, tensors: dict[str, torch.Tensor], encodings: EncodingTable
) -> None:
    save_file(tensors, model_dir / "model.safetensors", metadata={"format": "pt"})
    checkpoint = open_checkpoint(str(model_dir), encodings)
    check(checkpoint, tensors)
    assert {id: checkpoint.encoding_of(id) for id in DTYPES} == {id: id for id in DTYPES}
    assert checkpoint.format == "safetensors"
    assert checkpoint.architecture == "LlamaForCausalLM"
    assert checkpoint.config["hidden_size"] == 4
    assert checkpoint.generation_config == {}
    assert checkpoint.nbytes == sum(tensor.nbytes for tensor in tensors.values())


def test_weights_are_read_only_views_that_outlive_the_checkpoint(
    model_dir: Path, tensors: dict[str, torch.Tensor], encodings: EncodingTable
) -> None:
    save_file(tensors, model_dir / "model.safetensors")
    with open_checkpoint(model_dir, encodings) as checkpoint:
        weight, again = checkpoint.weight("bf16"), checkpoint.weight("bf16")
    assert np.shares_memory(weight.blocks, again.blocks)
    assert not weight.blocks.flags.writeable
    assert weight.blocks.shape == (3, 10)
    assert np.array_equal(weight.dequantize(), tensors["bf16"].float().numpy())


def test_shards_and_their_index(model_dir: Path, tensors: dict[str, torch.Tensor], encodings: EncodingTable) -> None:
    weight_map = write_sharded(model_dir, tensors)
    (model_dir / "generation_config.json").write_text('{"temperature": 0.6}')
    checkpoint = open_checkpoint(model_dir, encodings)
    check(checkpoint, tensors)
    assert checkpoint.names() == list(weight_map)
    assert checkpoint.generation_config == {"temperature": 0.6}


def test_files_may_be_links_as_in_the_hugging_face_cache(
    tmp_path: Path, tensors: dict[str, torch.Tensor], encodings: EncodingTable
) -> None:
    blobs, snapshot = tmp_path / "blobs", tmp_path / "snapshot"
    blobs.mkdir()
    snapshot.mkdir()
    (blobs / "config.json").write_text('{"architectures": ["LlamaForCausalLM"]}')
    write_sharded(blobs, tensors)
    for file in blobs.iterdir():
        (snapshot / file.name).symlink_to(file)
    check(open_checkpoint(snapshot, encodings), tensors)


@pytest.mark.parametrize("config", ["{}", '{"architectures": []}', '{"architectures": null}', '{"architectures": [3]}'])
def test_a_missing_architecture_names_the_field(
    config: str, model_dir: Path, safetensors_file: Callable[..., Path], encodings: EncodingTable
) -> None:
    safetensors_file({})
    (model_dir / "config.json").write_text(config)
    checkpoint = open_checkpoint(model_dir, encodings)
    with pytest.raises(ConfigError) as error:
        _ = checkpoint.architecture
    start = f"{model_dir}: the field 'architectures' in config.json must name the model's architecture, got "
    assert str(error.value).startswith(start)


def test_an_unsupported_dtype_is_refused_when_its_tensor_is_used(
    model_dir: Path, safetensors_file: Callable[..., Path], encodings: EncodingTable
) -> None:
    path = safetensors_file({"a": {"dtype": "F6_E2M3", "shape": [4], "data_offsets": [0, 3]}}, b"\0" * 3)
    checkpoint = open_checkpoint(model_dir, encodings)
    assert checkpoint.shape_of("a") == (4,)
    with pytest.raises(UnsupportedError) as error:
        checkpoint.weight("a")
    assert str(error.value) == (
        f"{path}: tensor 'a' has safetensors dtype 'F6_E2M3', which no installed encoding reads; "
        "use a file in another format, or install a plugin that provides this encoding"
    )


@pytest.mark.usefixtures("little_memory")
class TestBadDirectories:
    def message(self, path: Path, encodings: EncodingTable, kind: type[Exception] = CheckpointError) -> str:
        with pytest.raises(kind) as error:
            open_checkpoint(path, encodings)
        return str(error.value)

    def test_no_config(self, tmp_path: Path, safetensors_file: Callable[..., Path], encodings: EncodingTable) -> None:
        safetensors_file({})
        assert self.message(tmp_path, encodings) == (
            f"{tmp_path} has no config.json. Give the path of a Hugging Face model directory or of a .gguf file."
        )

    @pytest.mark.parametrize(
        ("text", "what"),
        [
            ('{\n  "a": 1,\n  b}', "line 3 column 3: Expecting property name enclosed in double quotes"),
            ("[1]", "an object is wanted, it holds list"),
            ("[" * 100_000, "nested too deeply"),
        ],
        ids=["syntax", "list", "nested"],
    )
    @pytest.mark.parametrize("name", ["config.json", "generation_config.json", "model.safetensors.index.json"])
    def test_invalid_json(
        self, name: str, text: str, what: str, model_dir: Path, safetensors_file: Any, encodings: EncodingTable
    ) -> None:
        safetensors_file({})
        (model_dir / name).write_text(text)
        assert self.message(model_dir, encodings) == (
            f"{model_dir / name} is not valid JSON ({what}). Correct the file or download it again."
        )

    def test_json_that_is_not_text(self, model_dir: Path, safetensors_file: Any, encodings: EncodingTable) -> None:
        safetensors_file({})
        (model_dir / "config.json").write_bytes(b'{"a": "\xff\xff"}')
        assert self.message(model_dir, encodings).startswith(f"{model_dir / 'config.json'} is not valid JSON (")

    @pytest.mark.parametrize("name", ["pytorch_model.bin", "pytorch_model-00001-of-00002.bin", "model.pth"])
    def test_only_pickles(self, name: str, model_dir: Path, encodings: EncodingTable) -> None:
        (model_dir / name).write_bytes(b"PK")
        assert self.message(model_dir, encodings, UnsupportedError) == (
            f"{model_dir} has its weights only as PyTorch pickle files, which can run code when they are read. "
            "Convert them to safetensors (https://huggingface.co/docs/safetensors/convert-weights), "
            "or use a checkpoint that has them."
        )

    def test_no_weights(self, model_dir: Path, encodings: EncodingTable) -> None:
        assert self.message(model_dir, encodings) == (
            f"{model_dir} has no model.safetensors and no model.safetensors.index.json. Download the weights into it."
        )

    def test_weights_of_another_name_are_mentioned(
        self, model_dir: Path, safetensors_file: Any, encodings: EncodingTable
    ) -> None:
        safetensors_file({}, name="adapter_model.safetensors")
        assert "index.json. It has adapter_model.safetensors. Download" in self.message(model_dir, encodings)

    def test_a_missing_shard(self, model_dir: Path, tensors: dict[str, torch.Tensor], encodings: EncodingTable) -> None:
        write_sharded(model_dir, tensors)
        (model_dir / "model-00002-of-00002.safetensors").unlink()
        assert self.message(model_dir, encodings) == (
            f"{model_dir}: model.safetensors.index.json names 2 files, 1 missing: "
            "model-00002-of-00002.safetensors. Download them into the same directory."
        )

    def test_a_tensor_that_the_index_places_wrongly(
        self, model_dir: Path, tensors: dict[str, torch.Tensor], encodings: EncodingTable
    ) -> None:
        write_sharded(model_dir, tensors, lost="model-00001-of-00002.safetensors")
        assert self.message(model_dir, encodings) == (
            f"{model_dir}: model.safetensors.index.json places 'lost' in model-00001-of-00002.safetensors, "
            "which does not have it (tensors placed wrongly: 1). Download the index and that file again."
        )

    @pytest.mark.parametrize("file", ["../a.safetensors", "/etc/passwd", "a/../../b", "", "..\\a", "C:a", "a\0b"])
    def test_an_index_that_points_outside(
        self, file: str, model_dir: Path, tensors: dict[str, torch.Tensor], encodings: EncodingTable
    ) -> None:
        write_sharded(model_dir, tensors, evil=file)
        assert self.message(model_dir, encodings) == (
            f"{model_dir}/model.safetensors.index.json names the file {file!r}, which is outside of its directory. "
            "Do not use this checkpoint."
        )

    @pytest.mark.parametrize("index", ["{}", '{"weight_map": []}', '{"weight_map": {"a": 3}}'])
    def test_an_index_without_a_map(self, index: str, model_dir: Path, encodings: EncodingTable) -> None:
        (model_dir / "model.safetensors.index.json").write_text(index)
        assert self.message(model_dir, encodings) == (
            f"{model_dir}/model.safetensors.index.json has no weight_map from tensor names to file names. "
            "Download it again."
        )


@pytest.mark.usefixtures("little_memory", "model_dir")
class TestCorruptFiles:
    @pytest.fixture
    def refused(self, safetensors_file: Callable[..., Path], encodings: EncodingTable) -> Callable[..., str]:
        def refuse(*args: Any, **options: Any) -> str:
            path = safetensors_file(*args, **options)
            with pytest.raises(CheckpointError) as error:
                open_checkpoint(path.parent, encodings)
            text = str(error.value)
            assert text.startswith(f"{path} ")
            assert text.endswith(AGAIN)
            return text.removeprefix(f"{path} ").removesuffix(AGAIN)

        return refuse

    def test_an_empty_file(self, model_dir: Path, encodings: EncodingTable) -> None:
        (model_dir / "model.safetensors").write_bytes(b"")
        with pytest.raises(CheckpointError) as error:
            open_checkpoint(model_dir, encodings)
        assert str(error.value) == f"{model_dir / 'model.safetensors'} is empty{AGAIN}"

    @pytest.mark.parametrize("length", [3, 100_000_000])
    def test_a_header_longer_than_the_file(self, length: int, refused: Callable[..., str]) -> None:
        text = f"states a header of {length} bytes, more than its 10 bytes can hold"
        assert refused(b"{}", length=length) == text

    @pytest.mark.parametrize("length", [100_000_001, 2**64 - 1])
    def test_an_absurd_header_length(self, length: int, refused: Callable[..., str]) -> None:
        text = f"states a header of {length} bytes, more than the 100000000 that are allowed"
        assert refused(b"{}", length=length) == text

    @pytest.mark.parametrize("text", [b"{", b"\xff\xfe{}", b"{} {}", b'{"a": ' + b"9" * 5000 + b"}"], ids=len)
    def test_a_header_that_is_not_json(self, text: bytes, refused: Callable[..., str]) -> None:
        assert refused(text).startswith("has a header that is not JSON (")

    def test_a_header_nested_too_deeply(self, refused: Callable[..., str]) -> None:
        assert refused(b"[" * 100_000).startswith("has a header that is not JSON (")

    def test_a_header_that_is_no_object(self, refused: Callable[..., str]) -> None:
        assert refused(b"[]") == "has a header that is list, not an object"

    def test_a_tensor_twice(self, refused: Callable[..., str]) -> None:
        field = b'"a": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]}'
        assert refused(b"{" + field + b"," + field + b"}", b"\0") == "has 'a' twice in its header"

    @pytest.mark.parametrize(
        "fields",
        [
            None,
            {},
            {"dtype": 3, "shape": [1], "data_offsets": [0, 4]},
            {"dtype": "F32", "shape": 1, "data_offsets": [0, 4]},
            {"dtype": "F32", "shape": [True], "data_offsets": [0, 4]},
            {"dtype": "F32", "shape": [-1], "data_offsets": [0, 4]},
            {"dtype": "F32", "shape": [1.0], "data_offsets": [0, 4]},
            {"dtype": "F32", "shape": [1], "data_offsets": [4, 0]},
            {"dtype": "F32", "shape": [1], "data_offsets": [0, 4, 8]},
            {"dtype": "F32", "shape": [1]},
        ],
        ids=str,
    )
    def test_fields_of_the_wrong_kind(self, fields: Any, refused: Callable[..., str]) -> None:
        text = "has no usable dtype, shape and data_offsets for tensor 'a'"
        assert refused({"a": fields}, b"\0" * 4) == text

    def test_data_past_the_end(self, refused: Callable[..., str]) -> None:
        header = {"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}
        size = 8 + len(json.dumps(header))
        assert refused(header, b"\0" * 7) == f"has {size + 7} bytes, but tensor 'a' ends at byte {size + 8}"

    def test_a_size_that_disagrees_with_the_shape(self, refused: Callable[..., str]) -> None:
        header = {"a": {"dtype": "BF16", "shape": [2, 3], "data_offsets": [0, 8]}}
        assert refused(header, b"\0" * 8) == "has 8 bytes for tensor 'a', but BF16 of shape (2, 3) takes 12"

    @pytest.mark.parametrize("shape", [[2**62, 2**62], [0, 2**62, 2**62]])
    def test_an_absurd_shape(self, shape: list[int], refused: Callable[..., str]) -> None:
        header = {"a": {"dtype": "F32", "shape": shape, "data_offsets": [0, 0]}}
        assert refused(header) == f"has tensor 'a', which has the absurd shape {tuple(shape)}"

    def test_too_many_dimensions(self, refused: Callable[..., str]) -> None:
        header = {"a": {"dtype": "U8", "shape": [1] * 100, "data_offsets": [0, 1]}}
        assert refused(header, b"\0") == "has tensor 'a', which has 100 dimensions, more than 32"

    @pytest.mark.parametrize(
        ("begin", "problem"), [(1, "overlaps the one before it"), (3, "leaves 1 bytes unused before it")]
    )
    def test_overlaps_and_holes(self, begin: int, problem: str, refused: Callable[..., str]) -> None:
        header = {
            "b": {"dtype": "U8", "shape": [2], "data_offsets": [begin, begin + 2]},
            "a": {"dtype": "U8", "shape": [2], "data_offsets": [0, 2]},
        }
        assert refused(header, b"\0" * (begin + 2)) == f"has tensor 'b', which {problem}"

    def test_bytes_after_the_last_tensor(self, refused: Callable[..., str]) -> None:
        header = {"a": {"dtype": "U8", "shape": [2], "data_offsets": [0, 2]}}
        assert refused(header, b"\0" * 5) == "has 3 bytes after its last tensor"

    def test_every_truncation_is_refused(
        self, tensors: dict[str, torch.Tensor], model_dir: Path, encodings: EncodingTable
    ) -> None:
        path = model_dir / "model.safetensors"
        save_file({"a": tensors["f32"]}, path)
        content = path.read_bytes()
        for size in range(len(content)):
            path.write_bytes(content[:size])
            with pytest.raises(CheckpointError) as error:
                open_checkpoint(model_dir, encodings)
            assert str(error.value).startswith(f"{path} ")
