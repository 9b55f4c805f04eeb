"""Damaged files: whatever the bytes, nothing but an error of the ModelHostError family, and soon."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import save

from modelhost.api import ModelHostError
from modelhost.weights.encoding_table import EncodingTable
from modelhost.weights.open import open_checkpoint

FUZZ = settings(max_examples=400, deadline=None, derandomize=True, database=None)
DAMAGE = st.tuples(
    st.lists(st.tuples(st.integers(0, 2**16), st.integers(0, 255)), max_size=4),
    st.none() | st.integers(0, 2**16),
)


def damaged(content: bytes, damage: tuple[list[tuple[int, int]], int | None]) -> bytes:
    changes, size = damage
    changed = bytearray(content)
    for position, value in changes:
        changed[position % len(content)] = value
    return bytes(changed) if size is None else bytes(changed[: size % len(content)])


def read_everything(path: Path, encodings: EncodingTable) -> int:
    """Read all that there is; the number of values read."""
    with open_checkpoint(path, encodings) as checkpoint:
        list(checkpoint.config.values())
        assert checkpoint.architecture
        assert checkpoint.nbytes <= path.stat().st_size or path.is_dir()
        with np.errstate(all="ignore"):
            return sum(checkpoint.weight(name).dequantize().size for name in checkpoint.names())


def readable(path: Path, encodings: EncodingTable) -> bool:
    """Whether the file was read; any error outside of the family passes on."""
    try:
        read_everything(path, encodings)
    except ModelHostError:
        return False
    return True


@pytest.fixture(scope="module")
def gguf_content(gguf_bytes: Any) -> bytes:
    strings = struct.pack("<IQ", 8, 3) + b"".join(gguf_bytes.string(text) for text in (b"a", b"\xc3\xa9", b""))
    nested = struct.pack("<IQIQ2I", 9, 1, 4, 2, 5, 6)
    keys = [
        gguf_bytes.architecture(),
        gguf_bytes.key(b"general.alignment", 4, struct.pack("<I", 32)),
        gguf_bytes.key(b"a.flag", 7, b"\1"),
        gguf_bytes.key(b"a.scores", 9, struct.pack("<IQ3f", 6, 3, 1, 2, 3)),
        gguf_bytes.key(b"a.tokens", 9, strings),
        gguf_bytes.key(b"a.nested", 9, nested),
        gguf_bytes.key(b"a.real", 12, struct.pack("<d", 0.5)),
    ]
    rows = [gguf_bytes.tensor(b"a", [4, 2], 0, 0), gguf_bytes.tensor(b"b", [256, 1], 12, 32)]
    return gguf_bytes.file(keys, rows, bytes(range(176)))


@pytest.fixture(scope="module")
def safetensors_content() -> bytes:
    return save({"a": np.ones((2, 3), np.float32), "b": np.ones(5, np.float16), "c": np.ones((0, 2), np.int8)})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("damaged")
    (folder / "config.json").write_text('{"architectures": ["LlamaForCausalLM"]}')
    return folder


def test_the_undamaged_files_are_read(
    folder: Path, gguf_content: bytes, safetensors_content: bytes, encodings: EncodingTable
) -> None:
    (folder / "whole.gguf").write_bytes(gguf_content)
    (folder / "model.safetensors").write_bytes(safetensors_content)
    assert read_everything(folder / "whole.gguf", encodings) == 8 + 256
    assert read_everything(folder, encodings) == 6 + 5


@FUZZ
@given(damage=DAMAGE)
def test_damaged_gguf_files(
    damage: tuple[list[tuple[int, int]], int | None], folder: Path, gguf_content: bytes, encodings: EncodingTable
) -> None:
    path = folder / "damaged.gguf"
    path.write_bytes(damaged(gguf_content, damage))
    readable(path, encodings)


@FUZZ
@given(damage=DAMAGE)
def test_damaged_safetensors_files(
    damage: tuple[list[tuple[int, int]], int | None], folder: Path, safetensors_content: bytes, encodings: EncodingTable
) -> None:
    (folder / "model.safetensors").write_bytes(damaged(safetensors_content, damage))
    readable(folder, encodings)
