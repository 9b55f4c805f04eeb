"""Incremental detokenisation against decoding at once."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import tokenizers
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tokenizers import decoders, models

from modelhost.api import TokenizerError, UnsupportedError
from modelhost.text import Tokenizer
from tests.counting import lines_executed

CORPUS: dict[str, str] = json.loads(Path(__file__).with_name("corpus.json").read_text(encoding="utf-8"))
NAMES = ("smollm2", "qwen2.5-coder", "gemma3")
quick = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])

# Pieces that decoders treat specially: bytes of one character, stray bytes, space symbols, word pieces, clean-up.
PIECES = [
    *(f"<0x{value:02X}>" for value in (0xF0, 0x9F, 0x99, 0x82, 0xE4, 0xBD, 0xA0, 0x41, 0x80, 0xFF, 0xC3)),
    *(
        "\u2581",
        "\u2581\u2581",
        "\u2581a",
        "b",
        " ",
        "a b",
        "##c",
        "##",
        "d</w>",
        "\ufffd",
        "é",
        "\u00f0",
        "\u0178",
        "🙂",
    ),
    *(" .", " '", " ' ", " n", "'t", " '", "ve", " do not", "n't", "\u0120x", "<0xGG>", "<0x4>", ",", " ?"),
]
DECODERS: dict[str, Any] = {
    "none": None,
    "byte level": decoders.ByteLevel(),
    "metaspace": decoders.Metaspace(),
    "metaspace never": decoders.Metaspace(prepend_scheme="never"),
    "word piece": decoders.WordPiece(),
    "word piece plain": decoders.WordPiece(cleanup=False),
    "suffix": decoders.BPEDecoder(suffix="</w>"),
    "byte fallback": decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()]),
    "llama": decoders.Sequence(
        [decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    ),
    "replace fused": decoders.Sequence([decoders.Fuse(), decoders.Replace(" '", "'"), decoders.Replace("bb", "c")]),
    "bytes then replace": decoders.Sequence([decoders.ByteLevel(), decoders.Replace("ab", "x")]),
    "token strip": decoders.Sequence([decoders.Strip(" ", 1, 0), decoders.Metaspace()]),
}


def made_tokenizer(decoder: Any, **options: Any) -> Tokenizer:
    backend = tokenizers.Tokenizer(
        models.WordLevel({piece: index for index, piece in enumerate(dict.fromkeys(PIECES))}, "")
    )
    if decoder is not None:
        backend.decoder = decoder
    return Tokenizer(backend, **options)


def streamed(tokenizer: Tokenizer, ids: Sequence[int], prompt: Sequence[int] = (), **options: Any) -> list[str]:
    stream = tokenizer.stream(prompt, **options)
    return [*(stream.push(index) for index in ids), stream.finish()]


@pytest.mark.parametrize("name", DECODERS)
@pytest.mark.parametrize("clean_up", [False, True])
@given(data=st.data())
@quick
def test_pieces_join_to_the_decoded_text(name: str, clean_up: bool, data: st.DataObject) -> None:
    tokenizer = made_tokenizer(DECODERS[name], clean_up_tokenization_spaces=clean_up, special_ids=(3, 14))
    ids = data.draw(st.lists(st.integers(0, tokenizer.vocab_size - 1), max_size=40))
    skip = data.draw(st.booleans())
    joined = "".join(streamed(tokenizer, ids, skip_special_tokens=skip))
    assert joined == tokenizer.decode(ids, skip_special_tokens=skip)


def test_stripping_both_ends() -> None:
    # Not part of the random test: `tokenizers` panics where there is less text than it may strip.
    both = decoders.Sequence([decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 2, 2)])
    tokenizer = made_tokenizer(both)
    for pieces in (
        ["b", "b"],
        [" "] * 3 + ["b"] + [" "] * 3,
        [" ", "b", " ", "b", " "],
        ["b", " ", " ", "b", " ", " "],
    ):
        ids = [tokenizer.token_id(piece) or 0 for piece in pieces]
        assert "".join(streamed(tokenizer, ids)) == tokenizer.decode(ids)


@pytest.mark.parametrize("name", NAMES)
@given(data=st.data())
@quick
def test_random_ids_of_real_vocabularies(
    name: str, data: st.DataObject, real_tokenizer: Callable[[str], Tokenizer]
) -> None:
    tokenizer = real_tokenizer(name)
    anything = st.integers(0, tokenizer.vocab_size - 1)
    bytes_and_specials = st.integers(0, 700)
    ids = data.draw(st.lists(st.one_of(anything, bytes_and_specials), max_size=60))
    skip = data.draw(st.booleans())
    pieces = streamed(tokenizer, ids, skip_special_tokens=skip)
    assert "".join(pieces) == tokenizer.decode(ids, skip_special_tokens=skip)


@pytest.mark.parametrize("name", NAMES)
def test_valid_text_never_shows_half_a_character(name: str, real_tokenizer: Callable[[str], Tokenizer]) -> None:
    tokenizer = real_tokenizer(name)
    for title, text in CORPUS.items():
        pieces = streamed(tokenizer, tokenizer.encode(text))
        assert "".join(pieces) == text
        assert sum(piece.count("\ufffd") for piece in pieces) == text.count("\ufffd"), title
        assert pieces[-1] == "" or name == "gemma3"


@pytest.mark.parametrize("name", NAMES)
@given(data=st.data())
@quick
def test_a_prompt_is_continued(name: str, data: st.DataObject, real_tokenizer: Callable[[str], Tokenizer]) -> None:
    """The output completes what the prompt left open: prompt and continuation together are the whole text."""
    tokenizer = real_tokenizer(name)
    anything = st.one_of(st.integers(0, tokenizer.vocab_size - 1), st.integers(0, 700))
    ids = data.draw(st.lists(anything, max_size=200))
    cut = data.draw(st.integers(0, len(ids)))
    whole = tokenizer.decode(ids)
    before = tokenizer.stream()
    settled = "".join(before.push(index) for index in ids[:cut])
    assert settled + "".join(streamed(tokenizer, ids[cut:], ids[:cut])) == whole


def test_a_leading_space_is_stripped_at_the_start_only(
    sentencepiece_metadata: Callable[..., dict[str, Any]], byte_level_metadata: Callable[..., dict[str, Any]]
) -> None:
    llama = Tokenizer.from_gguf(sentencepiece_metadata(("\u2581", "\u2581a", "a"), add_space_prefix=True))
    spaced = llama.encode("a", add_special_tokens=False)
    assert streamed(llama, spaced) == ["a", ""]
    assert streamed(llama, spaced, [1]) == ["a", ""], "a begin token alone shows no text"
    assert streamed(llama, spaced, [1, *spaced]) == [" a", ""]
    gpt = Tokenizer.from_gguf(byte_level_metadata(("\u0120 a",)))
    assert streamed(gpt, gpt.encode(" a")) == [" a", ""]
    assert streamed(gpt, gpt.encode(" a"), gpt.encode("x")) == [" a", ""]


def test_a_character_split_over_tokens_comes_out_whole(byte_level_metadata: Callable[..., dict[str, Any]]) -> None:
    tokenizer = Tokenizer.from_gguf(byte_level_metadata())
    ids = tokenizer.encode("é🙂")
    assert streamed(tokenizer, ids) == ["", "é", "", "", "", "🙂", ""]
    assert streamed(tokenizer, ids[:-1]) == ["", "é", "", "", "", "\ufffd"]
    assert streamed(tokenizer, ids[3:], ids[:3]) == ["", "", "🙂", ""], "the prompt ends inside a character"
    assert streamed(tokenizer, [ids[0], *tokenizer.encode("x")]) == ["", "\ufffdx", ""]


def test_byte_fallback_shows_one_replacement_character_a_byte(
    sentencepiece_metadata: Callable[..., dict[str, Any]],
) -> None:
    tokenizer = Tokenizer.from_gguf(sentencepiece_metadata(("a",), add_space_prefix=False))
    first, *rest = tokenizer.encode("🙂", add_special_tokens=False)
    end = tokenizer.encode("a", add_special_tokens=False)
    assert streamed(tokenizer, [first, *rest, *end]) == ["", "", "", "", "🙂a", ""]
    assert streamed(tokenizer, [first, rest[0], *end]) == ["", "", "\ufffd\ufffda", ""]
    assert streamed(tokenizer, [first, *rest]) == ["", "", "", "", "🙂"]


def test_special_tokens_are_skipped_or_shown(byte_level_metadata: Callable[..., dict[str, Any]]) -> None:
    tokenizer = Tokenizer.from_gguf(byte_level_metadata(control=("<|im_end|>",), user_defined=("<think>",)))
    ids = tokenizer.encode("a<think>b<|im_end|>")
    assert streamed(tokenizer, ids) == ["a", "<think>", "b", "", ""]
    assert streamed(tokenizer, ids, skip_special_tokens=False) == ["a", "<think>", "b", "<|im_end|>", ""]


def test_a_stream_ends_once(byte_level_metadata: Callable[..., dict[str, Any]]) -> None:
    tokenizer = Tokenizer.from_gguf(byte_level_metadata())
    stream = tokenizer.stream()
    assert (stream.finish(), stream.finish()) == ("", "")
    with pytest.raises(TokenizerError, match=r"^This text stream is finished; start a new one for more tokens\.$"):
        stream.push(0)


def test_an_id_beyond_the_vocabulary_has_no_text(byte_level_metadata: Callable[..., dict[str, Any]]) -> None:
    tokenizer = Tokenizer.from_gguf(byte_level_metadata())
    assert streamed(tokenizer, [*tokenizer.encode("a"), 256, 100_000, *tokenizer.encode("b")]) == ["a", "", "", "b", ""]


def test_a_decoder_that_needs_all_tokens_is_refused() -> None:
    with pytest.raises(UnsupportedError, match=r"^The decoder 'CTC' of this tokenizer cannot decode token by token\.$"):
        made_tokenizer(decoders.CTC()).stream()


@pytest.mark.parametrize("name", ["smollm2", "gemma3"])
def test_cost_grows_with_the_number_of_tokens_only(name: str, real_tokenizer: Callable[[str], Tokenizer]) -> None:
    tokenizer = real_tokenizer(name)
    ids = tokenizer.encode("A sentence, 你好 and 🙂. " * 400)

    def work(count: int) -> int:
        return lines_executed(lambda: streamed(tokenizer, (ids * 8)[:count]))

    assert work(8000) < 11 * work(800)
