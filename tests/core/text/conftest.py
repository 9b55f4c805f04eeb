from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from modelhost.text import Tokenizer
from modelhost.weights.encoding_table import EncodingTable
from modelhost.weights.encodings import ENCODINGS
from modelhost.weights.open import open_checkpoint

BYTES = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
BYTE_ALPHABET = [chr(value) for value in BYTES] + [chr(256 + offset) for offset in range(256 - len(BYTES))]


@pytest.fixture(scope="session")
def gguf_metadata(checkpoint_file: Callable[[str], Path]) -> Callable[[str], Mapping[str, Any]]:
    @cache
    def read(name: str) -> dict[str, Any]:
        with open_checkpoint(checkpoint_file(name), EncodingTable(ENCODINGS)) as checkpoint:
            return dict(checkpoint.config.items())

    return read


@pytest.fixture(scope="session")
def real_tokenizer(gguf_metadata: Callable[[str], Mapping[str, Any]]) -> Callable[[str], Tokenizer]:
    return cache(lambda name: Tokenizer.from_gguf(gguf_metadata(name)))


@pytest.fixture
def byte_level_metadata() -> Callable[..., dict[str, Any]]:
    """GGUF metadata of a byte-level BPE with the 256 bytes, then merged tokens, then added ones."""

    def make(
        merges: tuple[str, ...] = (), control: tuple[str, ...] = (), user_defined: tuple[str, ...] = (), **fields: Any
    ) -> dict[str, Any]:
        merged = [merge.replace(" ", "") for merge in merges]
        tokens = [*BYTE_ALPHABET, *merged, *control, *user_defined]
        types = [1] * (256 + len(merged)) + [3] * len(control) + [4] * len(user_defined)
        metadata = {
            "tokenizer.ggml.model": "gpt2",
            "tokenizer.ggml.pre": "gpt-2",
            "tokenizer.ggml.tokens": tokens,
            "tokenizer.ggml.token_type": types,
            "tokenizer.ggml.merges": list(merges),
        }
        return metadata | {f"tokenizer.{key.replace('__', '.')}": value for key, value in fields.items()}

    return make


@pytest.fixture
def sentencepiece_metadata() -> Callable[..., dict[str, Any]]:
    """GGUF metadata of a SentencePiece BPE: unknown, begin, end, the 256 bytes, then pieces by falling score."""

    def make(pieces: tuple[str, ...], user_defined: tuple[str, ...] = (), **fields: Any) -> dict[str, Any]:
        tokens = ["<unk>", "<s>", "</s>", *(f"<0x{value:02X}>" for value in range(256)), *pieces, *user_defined]
        metadata = {
            "tokenizer.ggml.model": "llama",
            "tokenizer.ggml.tokens": tokens,
            "tokenizer.ggml.token_type": [2, 3, 3, *[6] * 256, *[1] * len(pieces), *[4] * len(user_defined)],
            "tokenizer.ggml.scores": [0.0] * 259 + [float(-rank) for rank in range(len(pieces) + len(user_defined))],
        }
        return metadata | {f"tokenizer.ggml.{key}": value for key, value in fields.items()}

    return make


@pytest.fixture(scope="session")
def sentencepiece_model() -> Callable[..., bytes]:
    def make(
        tokens: Iterable[str], scores: Iterable[float], types: Iterable[int], unknown: int, model_type: int = 2
    ) -> bytes:
        """A model file (sentencepiece_model.proto; type 1 is unigram, 2 BPE), no normalisation, no dummy prefix."""

        def varint(value: int) -> bytes:
            return bytes([value & 127 | 128]) + varint(value >> 7) if value > 127 else bytes([value])

        def field(number: int, value: bytes | int) -> bytes:
            if isinstance(value, int):
                return varint(number << 3) + varint(value)
            return varint(number << 3 | 2) + varint(len(value)) + value

        pieces = bytearray()
        for index, (text, score, kind) in enumerate(zip(tokens, scores, types, strict=True)):
            spelled = text.replace(" ", "\u2581") if kind == 4 else text
            kind = 2 if index == unknown else kind
            pieces += field(1, field(1, spelled.encode()) + b"\x15" + struct.pack("<f", score) + field(3, kind))
        trainer = field(3, model_type) + field(35, int(model_type == 2)) + field(40, unknown) + field(45, b"<unk>")
        normalizer = field(1, b"identity") + field(3, 0) + field(4, 0) + field(5, 1)
        return bytes(pieces) + field(2, trainer) + field(3, normalizer)

    return make
