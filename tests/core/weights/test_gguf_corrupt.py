from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import Any

import pytest

from modelhost.api import CheckpointError, UnsupportedError
from modelhost.weights.encoding_table import EncodingTable
from modelhost.weights.open import open_checkpoint

AGAIN = ". The file is corrupt or incomplete: download it again."
HUGE = 2**63
pytestmark = pytest.mark.usefixtures("little_memory")


@pytest.fixture
def refused(tmp_path: Path, encodings: EncodingTable) -> Any:
    """Open a file of these bytes and return the error's text after the path."""

    def refuse(content: bytes, kind: type[Exception] = CheckpointError) -> str:
        path = tmp_path / "model.gguf"
        path.write_bytes(content)
        with pytest.raises(kind) as error:
            open_checkpoint(path, encodings)
        text = str(error.value)
        assert text.startswith(f"{path} ")
        return text.removeprefix(f"{path} ")

    return refuse


def test_an_empty_file(refused: Any) -> None:
    assert refused(b"") == "is empty" + AGAIN


def test_the_wrong_magic(refused: Any) -> None:
    assert refused(b"ggjt" + b"\0" * 60) == "starts with b'ggjt' instead of b\"GGUF\"" + AGAIN


def test_a_git_lfs_pointer(refused: Any) -> None:
    pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n"
    assert refused(pointer) == 'is a Git LFS pointer, not the file itself. Run "git lfs pull" in its directory.'


def test_a_web_page(refused: Any) -> None:
    text = "is a web page, not a checkpoint. Download the file itself, logged in if it is gated."
    assert refused(b"<!DOCTYPE html><html>") == text


@pytest.mark.parametrize("version", [0, 1, 4])
def test_another_version(version: int, refused: Any, gguf_bytes: Any) -> None:
    assert refused(gguf_bytes.file(version=version), UnsupportedError) == (
        f"is a GGUF file of version {version}; versions 2 and 3 are read. "
        "Convert the model again with a current llama.cpp."
    )


def test_a_big_endian_file(refused: Any) -> None:
    assert refused(b"GGUF" + struct.pack(">IQQ", 3, 0, 0), UnsupportedError) == (
        "is a big-endian GGUF file. Use the little-endian file of the same model."
    )


@pytest.mark.parametrize("size", range(1, 24))
def test_a_file_that_ends_in_its_header(size: int, refused: Any, gguf_bytes: Any) -> None:
    text = refused(gguf_bytes.file()[:size])
    assert text.endswith(AGAIN)
    if size >= 4:
        assert text.startswith("ends inside the ")


def test_an_absurd_number_of_tensors(refused: Any, gguf_bytes: Any) -> None:
    text = f"states {HUGE} tensors, more than its 24 bytes can hold"
    assert refused(gguf_bytes.file(tensor_count=HUGE)) == text + AGAIN


def test_an_absurd_number_of_keys(refused: Any, gguf_bytes: Any) -> None:
    text = f"states {HUGE} metadata keys, more than its 24 bytes can hold"
    assert refused(gguf_bytes.file(key_count=HUGE)) == text + AGAIN


def test_an_absurd_key_length(refused: Any, gguf_bytes: Any) -> None:
    content = gguf_bytes.file([struct.pack("<QQ", HUGE, 0)])
    text = f"ends inside metadata key 1 of 1: it needs {HUGE} bytes at offset 32 of 40"
    assert refused(content) == text + AGAIN


def test_an_absurd_string_length(refused: Any, gguf_bytes: Any) -> None:
    content = gguf_bytes.file([gguf_bytes.key(b"k", 8, struct.pack("<Q", HUGE))])
    text = f"ends inside metadata key 'k': it needs {HUGE} bytes at offset 45 of 45"
    assert refused(content) == text + AGAIN


@pytest.mark.parametrize("kind", [0, 4, 7, 8, 9, 12])
def test_an_absurd_array_length(kind: int, refused: Any, gguf_bytes: Any) -> None:
    content = gguf_bytes.file([gguf_bytes.key(b"k", 9, struct.pack("<IQ", kind, HUGE))])
    text = f"states {HUGE} items in metadata key 'k', more than its 49 bytes can hold"
    assert refused(content) == text + AGAIN


@pytest.mark.parametrize("length", [100, 2**62, 2**63, 2**64 - 1])
def test_an_absurd_length_inside_an_array_of_strings(length: int, refused: Any, gguf_bytes: Any) -> None:
    strings = gguf_bytes.string(b"a") + struct.pack("<Q", length) + b"\0" * 16
    content = gguf_bytes.file([gguf_bytes.key(b"k", 9, struct.pack("<IQ", 8, 3) + strings)])
    text = refused(content)
    assert text.startswith("ends inside metadata key 'k': it needs ")
    assert text.endswith(AGAIN)


def test_more_strings_than_any_vocabulary_has(
    tmp_path: Path, refused: Any, gguf_bytes: Any, encodings: EncodingTable
) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(gguf_bytes.file([gguf_bytes.key(b"k", 9, struct.pack("<IQ", 8, 2**24 + 1))]))
    os.truncate(path, 2**28)
    with pytest.raises(CheckpointError) as error:
        open_checkpoint(path, encodings)
    assert str(error.value) == f"{path} states 16777217 items in metadata key 'k', more than 16777216" + AGAIN


def test_arrays_nested_too_deeply(refused: Any, gguf_bytes: Any) -> None:
    content = gguf_bytes.file([gguf_bytes.key(b"k", 9, struct.pack("<IQ", 9, 1) * 5000 + b"\0" * 12)])
    assert refused(content) == "has arrays nested more than 8 deep in metadata key 'k'" + AGAIN


@pytest.mark.parametrize("value", [b"", struct.pack("<IQ", 77, 0)])
def test_an_unknown_value_type(value: bytes, refused: Any, gguf_bytes: Any) -> None:
    content = gguf_bytes.file([gguf_bytes.key(b"k", 9 if value else 77, value)])
    assert refused(content) == "has unknown value type 77 in metadata key 'k'" + AGAIN


def test_a_key_twice(refused: Any, gguf_bytes: Any) -> None:
    key = gguf_bytes.key(b"k", 0, b"\1")
    assert refused(gguf_bytes.file([key, key])) == "has the metadata key 'k' twice" + AGAIN


def test_a_key_that_is_not_utf8(refused: Any, gguf_bytes: Any) -> None:
    content = gguf_bytes.file([gguf_bytes.key(b"\xff", 0, b"\1")])
    assert refused(content) == "has bytes at offset 32 that are not UTF-8, in metadata key 1 of 1" + AGAIN


def test_values_that_are_wrong_are_refused_on_access(tmp_path: Path, gguf_bytes: Any, encodings: EncodingTable) -> None:
    path = tmp_path / "model.gguf"
    strings = struct.pack("<IQ", 8, 2) + gguf_bytes.string(b"a") + gguf_bytes.string(b"\xff")
    keys = [
        gguf_bytes.key(b"bool", 7, b"\2"),
        gguf_bytes.key(b"string", 8, gguf_bytes.string(b"\xff")),
        gguf_bytes.key(b"strings", 9, strings),
        gguf_bytes.key(b"good", 0, b"\7"),
    ]
    path.write_bytes(gguf_bytes.file(keys))
    config = open_checkpoint(path, encodings).config
    assert config["good"] == 7
    for key, text in {
        "bool": "has a boolean other than 0 and 1 in metadata key 'bool'",
        "string": "has bytes at offset 67 that are not UTF-8, in metadata key 'string'",
        "strings": "has bytes that are not UTF-8 in item 1 of metadata key 'strings'",
    }.items():
        with pytest.raises(CheckpointError) as error:
            _ = config[key]
        assert str(error.value) == f"{path} {text}{AGAIN}"


@pytest.mark.parametrize("alignment", [0, 3, 48])
def test_an_alignment_that_is_no_power_of_two(alignment: int, refused: Any, gguf_bytes: Any) -> None:
    content = gguf_bytes.file([gguf_bytes.key(b"general.alignment", 4, struct.pack("<I", alignment))])
    assert refused(content) == f"states general.alignment {alignment}, not a power of two" + AGAIN


def test_a_tensor_past_the_end(refused: Any, gguf_bytes: Any) -> None:
    content = gguf_bytes.file([], [gguf_bytes.tensor(b"a.weight", [256, 4], 12, 0)], b"\0" * 575)
    assert refused(content) == "has 671 bytes, but tensor 'a.weight' ends at byte 672" + AGAIN


def test_a_tensor_offset_past_the_end(refused: Any, gguf_bytes: Any) -> None:
    content = gguf_bytes.file([], [gguf_bytes.tensor(b"a", [1], 0, HUGE)], b"\0" * 4)
    assert refused(content) == f"has 68 bytes, but tensor 'a' ends at byte {64 + HUGE + 4}" + AGAIN


def test_absurd_dimensions(refused: Any, gguf_bytes: Any) -> None:
    content = gguf_bytes.file([], [gguf_bytes.tensor(b"a", [2**40, 2**40], 0, 0)], b"\0" * 4)
    text = f"has tensor 'a', which has the absurd shape ({2**40}, {2**40})"
    assert refused(content) == text + AGAIN


def test_dimensions_whose_product_overflows_to_zero(refused: Any, gguf_bytes: Any) -> None:
    content = gguf_bytes.file([], [gguf_bytes.tensor(b"a", [2**32, 2**32], 0, 0)], b"\0" * 4)
    assert refused(content).startswith("has tensor 'a', which has the absurd shape")


def test_large_dimensions_are_compared_with_the_file(refused: Any, gguf_bytes: Any) -> None:
    content = gguf_bytes.file([], [gguf_bytes.tensor(b"a", [2**20, 2**20], 0, 0)], b"\0" * 4)
    assert refused(content) == f"has 100 bytes, but tensor 'a' ends at byte {96 + 2**42}" + AGAIN


@pytest.mark.parametrize("rank", [5, 2**32 - 1])
def test_too_many_dimensions(rank: int, refused: Any, gguf_bytes: Any) -> None:
    row = gguf_bytes.string(b"a") + struct.pack("<I", rank) + b"\1" * 60
    text = f"has {rank} dimensions in tensor 'a', more than 4"
    assert refused(gguf_bytes.file([], [row])) == text + AGAIN


def test_rows_that_are_not_whole_blocks(refused: Any, gguf_bytes: Any) -> None:
    content = gguf_bytes.file([], [gguf_bytes.tensor(b"a", [100, 2], 12, 0)], b"\0" * 512)
    text = "has tensor 'a', which has rows of 100 values, not a multiple of the 256 in a block of q4_k"
    assert refused(content) == text + AGAIN


def test_a_misaligned_tensor(refused: Any, gguf_bytes: Any) -> None:
    content = gguf_bytes.file([], [gguf_bytes.tensor(b"a", [1], 0, 4)], b"\0" * 64)
    assert refused(content) == "has tensor 'a' at offset 4, not a multiple of the alignment 32" + AGAIN


def test_a_tensor_twice(refused: Any, gguf_bytes: Any) -> None:
    rows = [gguf_bytes.tensor(b"a", [1], 0, 0), gguf_bytes.tensor(b"a", [1], 0, 32)]
    assert refused(gguf_bytes.file([], rows, b"\0" * 64)) == "has the tensor 'a' twice" + AGAIN


def test_tensors_that_overlap(refused: Any, gguf_bytes: Any) -> None:
    rows = [gguf_bytes.tensor(b"a", [1], 0, 32), gguf_bytes.tensor(b"b", [16], 0, 0)]
    assert refused(gguf_bytes.file([], rows, b"\0" * 64)) == "has tensors 'b' and 'a' in the same bytes" + AGAIN


def test_a_tensor_name_that_is_not_utf8(refused: Any, gguf_bytes: Any) -> None:
    content = gguf_bytes.file([], [gguf_bytes.tensor(b"\xff", [1], 0, 0)], b"\0" * 4)
    assert refused(content) == "has bytes at offset 32 that are not UTF-8, in the name of tensor 1 of 1" + AGAIN


def test_every_truncation_is_refused(refused: Any, gguf_bytes: Any) -> None:
    array = struct.pack("<IQ", 8, 2) + gguf_bytes.string(b"one") + gguf_bytes.string(b"two")
    keys = [gguf_bytes.architecture(), gguf_bytes.key(b"tokens", 9, array)]
    content = gguf_bytes.file(keys, [gguf_bytes.tensor(b"a", [8], 0, 0)], b"\1" * 32)
    for size in range(len(content)):
        assert refused(content[:size]).endswith(AGAIN)
