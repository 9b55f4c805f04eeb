"""The tokenizers of three real GGUF files against independent implementations over the same data."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import sentencepiece
from tokenizers import pre_tokenizers

from modelhost.text import Tokenizer

CORPUS: dict[str, str] = json.loads(Path(__file__).with_name("corpus.json").read_text(encoding="utf-8"))
NAMES = ("smollm2", "qwen2.5-coder", "gemma3")
TokenizerOf = Callable[[str], Tokenizer]
MetadataOf = Callable[[str], Mapping[str, Any]]


@pytest.fixture(scope="module")
def reference(gguf_metadata: MetadataOf) -> Callable[[str], Any]:
    """transformers' conversion of the same metadata: AutoTokenizer with gguf_file=, without its slow reader."""
    from transformers import PreTrainedTokenizerFast
    from transformers.integrations.gguf.gguf_tokenizer_mapping import GGUF_TOKENIZER_MAPPING, convert_gguf_tokenizer

    @cache
    def load(name: str) -> Any:
        metadata = gguf_metadata(name)
        fields = GGUF_TOKENIZER_MAPPING["tokenizer"].items()
        arguments = {to: metadata[f"tokenizer.{key}"] for key, to in fields if f"tokenizer.{key}" in metadata}
        backend, _ = convert_gguf_tokenizer(metadata["general.architecture"], arguments)
        if name == "smollm2":
            # transformers takes GPT-2's split for `smollm`. SmolLM2's tokenizer.json has Digits(individual_digits)
            # before it, and llama.cpp splits on \p{N} first, so "²³" must be two pieces and " ½" must not be one.
            backend.pre_tokenizer = pre_tokenizers.Sequence(
                [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
            )
        tokens = metadata["tokenizer.ggml.tokens"]
        return PreTrainedTokenizerFast(
            tokenizer_object=backend,
            bos_token=tokens[metadata["tokenizer.ggml.bos_token_id"]],
            eos_token=tokens[metadata["tokenizer.ggml.eos_token_id"]],
            add_bos_token=metadata["tokenizer.ggml.add_bos_token"],
        )

    return load


@pytest.mark.parametrize("name", NAMES)
def test_ids_and_text_equal_transformers(
    name: str, real_tokenizer: TokenizerOf, reference: Callable[[str], Any]
) -> None:
    tokenizer, expected = real_tokenizer(name), reference(name)
    for title, text in CORPUS.items():
        if name == "gemma3" and title == "spaces":
            continue  # see test_gemma_runs_of_spaces
        ids = tokenizer.encode(text)
        assert ids == expected.encode(text), title
        for skip in (True, False):
            assert tokenizer.decode(ids, skip_special_tokens=skip) == expected.decode(ids, skip_special_tokens=skip)


@pytest.mark.parametrize("name", NAMES)
def test_every_special_token_inside_text_equals_transformers(
    name: str, real_tokenizer: TokenizerOf, reference: Callable[[str], Any]
) -> None:
    tokenizer, expected = real_tokenizer(name), reference(name)
    texts = [tokenizer.backend.id_to_token(index) for index in sorted(tokenizer.special_ids)]
    for text in (f" a{token}b {token}\n{token}{token}" for token in texts):
        assert tokenizer.encode(text) == expected.encode(text)
        assert tokenizer.decode(tokenizer.encode(text, add_special_tokens=False), skip_special_tokens=False) == text


@pytest.mark.parametrize("name", NAMES)
def test_decoding_gives_the_text_back(name: str, real_tokenizer: TokenizerOf) -> None:
    tokenizer = real_tokenizer(name)
    for text in CORPUS.values():
        assert tokenizer.decode(tokenizer.encode(text)) == text


@pytest.mark.parametrize("name", NAMES)
def test_random_unicode_survives(name: str, real_tokenizer: TokenizerOf) -> None:
    tokenizer, chance = real_tokenizer(name), random.Random(7)
    ranges = ((0, 0x7F), (0x80, 0x7FF), (0x800, 0xD7FF), (0xE000, 0xFFFF), (0x10000, 0x10FFFF))
    # SmolLM2's vocabulary has no token for some bytes, so its own tokenizer loses the characters that need them too.
    held = set().union(*(tokenizer.token_bytes(index) or b"" for index in range(tokenizer.vocab_size)))
    survivors = 0
    for _ in range(300):
        points = [chance.randint(*chance.choice(ranges)) for _ in range(chance.randint(1, 40))]
        # SentencePiece writes a space as U+2581.
        text = "".join(character for character in map(chr, points) if set(character.encode()) <= held)
        text = text.replace("\u2581", "")
        survivors += len(text)
        assert tokenizer.decode(tokenizer.encode(text)) == text
    assert survivors > 3000


def test_sentencepiece_writes_its_space_symbol_back_as_a_space(real_tokenizer: TokenizerOf) -> None:
    tokenizer = real_tokenizer("gemma3")
    assert tokenizer.decode(tokenizer.encode("a\u2581b")) == "a b"


@pytest.fixture(scope="module")
def gemma_sentencepiece(
    gguf_metadata: MetadataOf, sentencepiece_model: Callable[..., bytes]
) -> sentencepiece.SentencePieceProcessor:
    metadata = gguf_metadata("gemma3")
    arrays = (metadata[f"tokenizer.ggml.{key}"] for key in ("tokens", "scores", "token_type"))
    proto = sentencepiece_model(*arrays, unknown=metadata["tokenizer.ggml.unknown_token_id"])
    return sentencepiece.SentencePieceProcessor(model_proto=proto)


def test_gemma_equals_sentencepiece(
    real_tokenizer: TokenizerOf, gemma_sentencepiece: sentencepiece.SentencePieceProcessor
) -> None:
    tokenizer, chance = real_tokenizer("gemma3"), random.Random(11)
    parts = (
        "a",
        "e",
        "==",
        "=",
        "-",
        " ",
        "  ",
        "\n",
        "\t",
        "\u2581",
        "哈",
        "é",
        "0",
        "<b>",
        "</s>",
        "the",
        " the",
        "ing",
    )
    parts += ("//", "*", "'", "🙂", "\u0301", "\u0627", "م", "क", "\u094d", "\r", "\0", "ab", "((", "#", "ß", "İ")
    texts = ["".join(chance.choices(parts, k=chance.randint(1, 60))) for _ in range(2000)]
    texts += [chance.choice(parts) * chance.randint(1, 90) + chance.choice(parts) for _ in range(1000)]
    for text in (*CORPUS.values(), *texts):
        assert tokenizer.encode(text, add_special_tokens=False) == gemma_sentencepiece.encode(text), text


def test_gemma_runs_of_spaces(real_tokenizer: TokenizerOf, reference: Callable[[str], Any]) -> None:
    # Gemma's runs of 2 to 31 spaces are user-defined pieces, which SentencePiece (and llama.cpp) match longest first.
    # transformers rebuilds merges from them for GGUF files, and so cuts a run of 64 into four times 16.
    tokenizer = real_tokenizer("gemma3")
    thirty_one, two = tokenizer.token_id("\u2581" * 31), tokenizer.token_id("\u2581" * 2)
    assert tokenizer.encode(" " * 64, add_special_tokens=False) == [thirty_one, thirty_one, two]
    assert reference("gemma3").encode(" " * 64, add_special_tokens=False) != [thirty_one, thirty_one, two]


def test_special_tokens_of_the_real_files(real_tokenizer: TokenizerOf) -> None:
    def endings(name: str) -> list[str]:
        tokenizer = real_tokenizer(name)
        return [tokenizer.backend.id_to_token(index) for index in tokenizer.eos_token_ids]

    assert endings("smollm2") == ["<|im_end|>", "<|endoftext|>", "<reponame>"]
    assert endings("qwen2.5-coder") == ["<|im_end|>", "<|endoftext|>", "<|fim_pad|>", "<|repo_name|>", "<|file_sep|>"]
    assert endings("gemma3") == ["<eos>", "<end_of_turn>"]
    gemma, qwen = real_tokenizer("gemma3"), real_tokenizer("qwen2.5-coder")
    assert gemma.encode("") == [gemma.bos_token_id] == [2]
    assert (gemma.vocab_size, qwen.vocab_size, real_tokenizer("smollm2").vocab_size) == (262144, 151936, 49152)
    assert qwen.token_id("<tool_call>") not in qwen.special_ids
    assert qwen.decode(qwen.encode("<tool_call>x</tool_call><|im_end|>")) == "<tool_call>x</tool_call>"
    padding = qwen.token_id("[PAD151700]")
    assert padding is not None and qwen.decode([padding]) == "" and qwen.token_bytes(padding) is None


def test_token_bytes_join_to_the_text(real_tokenizer: TokenizerOf) -> None:
    for name in NAMES:
        tokenizer = real_tokenizer(name)
        for text in CORPUS.values():
            pieces = [tokenizer.token_bytes(index) for index in tokenizer.encode(text, add_special_tokens=False)]
            assert b"".join(piece or b"" for piece in pieces) == text.encode()
