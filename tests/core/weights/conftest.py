from __future__ import annotations

import json
import struct
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from modelhost.weights.encoding_table import EncodingTable
from modelhost.weights.encodings import ENCODINGS

STRING, U32 = 8, 4
MEBIBYTE = 1 << 20


class GGUFBytes:
    """Writes GGUF files byte by byte, valid or not."""

    string = staticmethod(lambda text: struct.pack("<Q", len(text)) + text)

    def key(self, name: bytes, kind: int, value: bytes) -> bytes:
        return self.string(name) + struct.pack("<I", kind) + value

    def architecture(self, name: bytes = b"llama") -> bytes:
        return self.key(b"general.architecture", STRING, self.string(name))

    def tensor(self, name: bytes, dimensions: Sequence[int], kind: int, offset: int) -> bytes:
        dims = struct.pack(f"<{len(dimensions)}Q", *dimensions)
        return self.string(name) + struct.pack("<I", len(dimensions)) + dims + struct.pack("<IQ", kind, offset)

    def file(
        self,
        keys: Sequence[bytes] = (),
        tensors: Sequence[bytes] = (),
        data: bytes = b"",
        *,
        magic: bytes = b"GGUF",
        version: int = 3,
        key_count: int | None = None,
        tensor_count: int | None = None,
        alignment: int = 32,
    ) -> bytes:
        tensor_count = len(tensors) if tensor_count is None else tensor_count
        key_count = len(keys) if key_count is None else key_count
        head = magic + struct.pack("<IQQ", version, tensor_count, key_count) + b"".join(keys) + b"".join(tensors)
        return head + b"\0" * (-len(head) % alignment) + data if data else head


@pytest.fixture(scope="session")
def encodings() -> EncodingTable:
    return EncodingTable(ENCODINGS)


@pytest.fixture(scope="session")
def gguf_bytes() -> GGUFBytes:
    return GGUFBytes()


@pytest.fixture
def little_memory() -> Iterator[None]:
    """Fails the test when it allocates more than a few MiB at once, whatever sizes a file claims."""
    tracemalloc.start()
    try:
        yield
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 8 * MEBIBYTE


@pytest.fixture
def safetensors_file(tmp_path: Path) -> Callable[..., Path]:
    """Writes a safetensors file from a header (a dict or raw bytes) and data."""

    def write(header: Any, data: bytes = b"", *, length: int | None = None, name: str = "model.safetensors") -> Path:
        text = header if isinstance(header, bytes) else json.dumps(header).encode()
        path = tmp_path / name
        path.write_bytes(struct.pack("<Q", len(text) if length is None else length) + text + data)
        return path

    return write


@pytest.fixture
def model_dir(tmp_path: Path) -> Path:
    """A directory with a config.json and no weights."""
    (tmp_path / "config.json").write_text('{"architectures": ["LlamaForCausalLM"], "hidden_size": 4}')
    return tmp_path
