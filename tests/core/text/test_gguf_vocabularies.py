"""Tokenizers from small hand-made GGUF vocabularies: flags, token types, end tokens and errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import sentencepiece
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from modelhost.api import RequestError, TokenizerError, UnsupportedError
from modelhost.text import Tokenizer

Make = Callable[..., dict[str, Any]]
quick = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def test_token_types(byte_level_metadata: Make) -> None:
    metadata = byte_level_metadata(control=("<|end|>", "<|x y|>"), user_defined=("<think>",))
    metadata["tokenizer.ggml.tokens"].append("[PAD259]")
    metadata["tokenizer.ggml.token_type"].append(5)
    tokenizer = Tokenizer.from_gguf(metadata)
    ids = tokenizer.encode("a<think><|x y|>[PAD259]")
    assert ids[1:3] == [258, 257] and 259 not in ids
    assert tokenizer.special_ids == {256, 257}
    assert tokenizer.decode([258, 257, 259, 64]) == "<think>a"
    assert tokenizer.decode([258, 257, 259, 64], skip_special_tokens=False) == "<think><|x y|>a"
    assert [tokenizer.token_bytes(index) for index in (64, 258, 259, 260, -1)] == [b"a", b"<think>", None, None, None]
    assert (tokenizer.vocab_size, tokenizer.token_id("<think>"), tokenizer.token_id("nothing")) == (260, 258, None)


def test_begin_and_end_tokens_of_a_byte_level_vocabulary(byte_level_metadata: Make) -> None:
    def ids(text: str, **fields: Any) -> list[int]:
        made = byte_level_metadata(control=("<b:1>", "<e>"), ggml__bos_token_id=256, ggml__eos_token_id=257, **fields)
        return Tokenizer.from_gguf(made).encode(text)

    assert ids("a") == [64]
    assert ids("a", ggml__add_bos_token=True) == [256, 64]
    assert ids("a", ggml__add_eos_token=True) == [64, 257]
    assert ids("", ggml__add_bos_token=True, ggml__add_eos_token=True) == [256, 257]
    assert ids("a", ggml__pre="llama-bpe") == [256, 64], "llama-bpe adds the begin token unless told otherwise"
    assert ids("a", ggml__pre="tekken", ggml__add_bos_token=False) == [64]


def test_sentencepiece_adds_begin_and_prefix_space_unless_told_otherwise(sentencepiece_metadata: Make) -> None:
    pieces = ("\u2581a", "\u2581", "a", "b")

    def tokens(text: str, **fields: Any) -> list[str]:
        tokenizer = Tokenizer.from_gguf(sentencepiece_metadata(pieces, **fields))
        return [tokenizer.backend.id_to_token(index) for index in tokenizer.encode(text)]

    assert tokens("ab") == ["<s>", "\u2581a", "b"]
    assert tokens("") == ["<s>"]
    assert tokens("ab", add_space_prefix=False) == ["<s>", "a", "b"]
    assert tokens("ab", add_bos_token=False, add_eos_token=True) == ["\u2581a", "b", "</s>"]
    # As in llama.cpp, text after a special token gets the prefix space again.
    assert tokens("a</s>a") == ["<s>", "\u2581a", "</s>", "\u2581a"]
    assert tokens("é") == ["<s>", "\u2581", "<0xC3>", "<0xA9>"]


@pytest.mark.parametrize("prefix", [False, True])
@given(data=st.data())
@quick
def test_scores_merge_as_in_sentencepiece(
    prefix: bool, data: st.DataObject, sentencepiece_metadata: Make, sentencepiece_model: Callable[..., bytes]
) -> None:
    pieces = data.draw(st.lists(st.text("ab\u2581=", min_size=2, max_size=5), unique=True, max_size=25))
    user_defined = data.draw(st.lists(st.sampled_from(["<i>", "\n\n", "ab<"]), unique=True))
    metadata = sentencepiece_metadata((*pieces, *"\u2581ab=<i>\n"), tuple(user_defined), add_space_prefix=False)
    tokenizer = Tokenizer.from_gguf(metadata)
    arrays = (metadata[f"tokenizer.ggml.{key}"] for key in ("tokens", "scores", "token_type"))
    expected = sentencepiece.SentencePieceProcessor(model_proto=sentencepiece_model(*arrays, unknown=0))
    text = data.draw(st.text("ab =<i>\n\u2581é", max_size=40))
    assert tokenizer.encode(text, add_special_tokens=False) == expected.encode(text)
    if prefix:
        # The same vocabulary with a prefix space: the text with a space before it.
        prefixed = Tokenizer.from_gguf(metadata | {"tokenizer.ggml.add_space_prefix": True})
        plain = text.replace("<", "").replace("\n", "")
        wanted = expected.encode(" " + plain) if plain else []
        assert prefixed.encode(plain, add_special_tokens=False) == wanted
        assert prefixed.decode(prefixed.encode(plain)) == plain.replace("\u2581", " ")


def test_user_defined_runs_of_spaces_match_longest_first(sentencepiece_metadata: Make) -> None:
    tokenizer = Tokenizer.from_gguf(sentencepiece_metadata(("\u2581", "a"), ("  ", "    "), add_space_prefix=False))
    ids = tokenizer.encode("a" + " " * 7 + "a", add_special_tokens=False)
    assert [tokenizer.token_bytes(index) for index in ids] == [b"a", b"    ", b"  ", b" ", b"a"]
    assert tokenizer.decode(ids) == "a" + " " * 7 + "a"


def test_arrays_may_be_numpy(sentencepiece_metadata: Make) -> None:
    metadata = sentencepiece_metadata(("ab", "a", "b"))
    for key, dtype in (("scores", np.float32), ("token_type", np.int32)):
        metadata[f"tokenizer.ggml.{key}"] = np.array(metadata[f"tokenizer.ggml.{key}"], dtype)
    assert Tokenizer.from_gguf(metadata).encode("ab")[-1] == 259


def test_raw_text_bpe(byte_level_metadata: Make) -> None:
    tokens = [
        "<unk>",
        "<bos>",
        *(f"<0x{value:02X}>" for value in range(256)),
        "\u2581",
        "a",
        "b",
        "\u2581a",
        "\u2581ab",
    ]
    metadata = {
        "tokenizer.ggml.model": "gemma4",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [2, 3, *[6] * 256, *[1] * 5],
        "tokenizer.ggml.merges": ["\u2581 a", "\u2581a b"],
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.unknown_token_id": 0,
    }
    tokenizer = Tokenizer.from_gguf(metadata)
    assert tokenizer.encode("a ab\né") == [1, 259, 262, 2 + 0x0A, 2 + 0xC3, 2 + 0xA9]
    assert tokenizer.decode(tokenizer.encode("a ab\né")) == "a ab\né"


def test_word_piece() -> None:
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    words = ["\u2581hello", "\u2581un", "aff", "able", "\u2581,", "\u2581cafe"]
    metadata = {
        "tokenizer.ggml.model": "bert",
        "tokenizer.ggml.tokens": [*special, *words],
        "tokenizer.ggml.token_type": [3] * 5 + [1] * 6,
        "tokenizer.ggml.bos_token_id": 2,
        "tokenizer.ggml.seperator_token_id": 3,
        "tokenizer.ggml.unknown_token_id": 1,
    }
    tokenizer = Tokenizer.from_gguf(metadata)
    assert tokenizer.encode("Hello, UNAFFABLE xyz [MASK] café") == [2, 5, 9, 6, 7, 8, 1, 4, 10, 3]
    assert tokenizer.decode([2, 5, 9, 6, 7, 8, 3]) == "hello, unaffable"
    assert [tokenizer.token_bytes(index) for index in (5, 7)] == [b" hello", b"aff"]
    cased = Tokenizer.from_gguf(metadata | {"tokenizer.ggml.normalizer.lowercase": False})
    assert cased.encode("Hello", add_special_tokens=False) == [1]


def test_unigram_equals_sentencepiece(sentencepiece_model: Callable[..., bytes]) -> None:
    pieces = ["\u2581", "a", "b", "ab", "\u2581a", "\u2581ab", "ba", "aba"]
    tokens = ["<pad>", "</s>", "<unk>", *pieces]
    scores = [0.0, 0.0, 0.0, -4.0, -3.0, -3.5, -4.2, -3.3, -5.0, -4.1, -6.3]
    metadata = {
        "tokenizer.ggml.model": "t5",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.scores": scores,
        "tokenizer.ggml.token_type": [3, 3, 2, *[1] * 8],
        "tokenizer.ggml.add_space_prefix": True,
    }
    tokenizer = Tokenizer.from_gguf(metadata)
    proto = sentencepiece_model(tokens, scores, [3, 3, 2, *[1] * 8], unknown=2, model_type=1)
    expected = sentencepiece.SentencePieceProcessor(model_proto=proto)
    for text in ("ab", "aba ab", "bababa a b", "ba", "a  b"):
        assert tokenizer.encode(text) == [*expected.encode(" " + text), 1]
        assert tokenizer.decode(tokenizer.encode(text)) == text


ENDINGS: list[tuple[tuple[str, ...], dict[str, int], list[str]]] = [
    (("<|im_end|>", "<|im_start|>", "<|endoftext|>"), {"eos_token_id": 258}, ["<|endoftext|>", "<|im_end|>"]),
    (
        ("<|eot_id|>", "<|end_of_text|>", "<|eom_id|>"),
        {"eos_token_id": 257},
        ["<|end_of_text|>", "<|eot_id|>", "<|eom_id|>"],
    ),
    (("a!", "b!", "c!"), {"eos_token_id": 256, "eot_token_id": 257, "eom_token_id": 258}, ["a!", "b!", "c!"]),
    (("<|end|>", "<|return|>", "<|call|>"), {"eos_token_id": 257}, ["<|return|>", "<|call|>"]),
    (("<|end|>", "<|endoftext|>"), {"eos_token_id": 257}, ["<|endoftext|>", "<|end|>"]),
    (("</s>", "<turn|>", "<|tool_response>"), {"eos_token_id": 257}, ["<turn|>", "<|tool_response>"]),
    (("</s>",), {}, ["</s>"]),
    (
        ("<|fim_pad|>", "<|repo_name|>", "<|file_sep|>", "<|fim_prefix|>"),
        {},
        ["<|fim_pad|>", "<|repo_name|>", "<|file_sep|>"],
    ),
    (("x!",), {"fim_pad_token_id": 256}, ["x!"]),
    (("x!",), {}, []),
]


@pytest.mark.parametrize(("control", "fields", "expected"), ENDINGS)
def test_tokens_that_end_generation(
    control: tuple[str, ...], fields: dict[str, int], expected: list[str], byte_level_metadata: Make
) -> None:
    made = byte_level_metadata(control=control, **{f"ggml__{key}": value for key, value in fields.items()})
    tokenizer = Tokenizer.from_gguf(made)
    assert [tokenizer.backend.id_to_token(index) for index in tokenizer.eos_token_ids] == expected


def test_a_turn_end_is_special_even_if_the_file_says_otherwise(byte_level_metadata: Make) -> None:
    tokenizer = Tokenizer.from_gguf(byte_level_metadata(user_defined=("<|im_end|>", "</s>")))
    assert tokenizer.special_ids == {256} and tokenizer.eos_token_ids == (256,)
    assert tokenizer.decode(tokenizer.encode("a</s><|im_end|>")) == "a</s>", "a user-defined </s> is an HTML tag"


def test_phi3_control_tokens_swallow_the_space_after_them(sentencepiece_metadata: Make) -> None:
    metadata = sentencepiece_metadata(("\u2581", "a"), add_space_prefix=False)
    metadata["tokenizer.ggml.tokens"].append("<|user|>")
    metadata["tokenizer.ggml.token_type"].append(3)
    metadata["tokenizer.ggml.scores"].append(0.0)
    user, letter = 261, 260
    assert Tokenizer.from_gguf(metadata).encode("<|user|>\n a")[1:] != [user, letter]
    assert Tokenizer.from_gguf(metadata | {"general.name": "Phi-3 mini"}).encode("<|user|>\n a")[1:] == [user, letter]


def test_chat_templates(byte_level_metadata: Make) -> None:
    named = {"chat_template": "plain", "chat_template.rag": "rag", "chat_templates": ["rag"]}
    tokenizer = Tokenizer.from_gguf(byte_level_metadata(**named))
    assert tokenizer.chat_template == "plain"
    assert tokenizer.chat_templates == {"default": "plain", "rag": "rag"}
    assert Tokenizer.from_gguf(byte_level_metadata()).chat_template is None


ERRORS: list[tuple[dict[str, Any], type[Exception], str]] = [
    (
        {"model": None},
        TokenizerError,
        "GGUF field 'tokenizer.ggml.model' is missing: this file holds no tokenizer. "
        "Use a file that holds one, or name a directory with a tokenizer.json.",
    ),
    (
        {"tokens": None},
        TokenizerError,
        "GGUF field 'tokenizer.ggml.tokens' is missing: this file holds no tokenizer. "
        "Use a file that holds one, or name a directory with a tokenizer.json.",
    ),
    (
        {"model": "rwkv"},
        UnsupportedError,
        "GGUF field 'tokenizer.ggml.model': vocabularies of kind 'rwkv' are not supported; "
        "supported are gpt2, gemma4, llama, t5, bert.",
    ),
    (
        {"merges": None},
        TokenizerError,
        "GGUF field 'tokenizer.ggml.merges' is missing; a byte-level BPE vocabulary needs it.",
    ),
    ({"merges": ["a b", "ab"]}, TokenizerError, "GGUF field 'tokenizer.ggml.merges', entry 1: 'ab' is not a pair."),
    (
        {"merges": ["a b"]},
        TokenizerError,
        "GGUF field 'tokenizer.ggml.merges' does not fit the vocabulary: Error while initializing BPE: "
        "Token `ab` out of vocabulary.",
    ),
    ({"tokens": "abc"}, TokenizerError, "GGUF field 'tokenizer.ggml.tokens': an array is expected, not str."),
    ({"tokens": ["a", "b", "a"]}, TokenizerError, "GGUF field 'tokenizer.ggml.tokens': 'a' has both ids 0 and 2."),
    ({"token_type": [1, 1]}, TokenizerError, "GGUF field 'tokenizer.ggml.token_type' has 2 values for 256 tokens."),
    (
        {"eos_token_id": 256},
        TokenizerError,
        "GGUF field 'tokenizer.ggml.eos_token_id' is 256, but the vocabulary has 256 tokens.",
    ),
    (
        {"add_bos_token": True},
        TokenizerError,
        "GGUF field 'tokenizer.ggml.bos_token_id' is missing, but 'tokenizer.ggml.add_bos_token' asks for that token.",
    ),
    (
        {"model": "llama", "scores": None},
        TokenizerError,
        "GGUF field 'tokenizer.ggml.scores' is missing; a SentencePiece vocabulary needs it.",
    ),
]


@pytest.mark.parametrize(("fields", "kind", "text"), ERRORS)
def test_errors(fields: dict[str, Any], kind: type[Exception], text: str, byte_level_metadata: Make) -> None:
    metadata = byte_level_metadata() | {f"tokenizer.ggml.{key}": value for key, value in fields.items()}
    metadata = {key: value for key, value in metadata.items() if value is not None}
    with pytest.raises(kind) as caught:
        Tokenizer.from_gguf(metadata)
    assert str(caught.value) == text


def test_ids_outside_the_vocabulary(byte_level_metadata: Make) -> None:
    tokenizer = Tokenizer.from_gguf(byte_level_metadata())
    for index in (-1, 256):
        with pytest.raises(TokenizerError) as caught:
            tokenizer.decode([0, index])
        assert str(caught.value) == f"Token id {index} is outside the vocabulary of 256 tokens (0 to 255)."


def test_lone_surrogates(byte_level_metadata: Make) -> None:
    tokenizer = Tokenizer.from_gguf(byte_level_metadata())
    with pytest.raises(RequestError) as caught:
        tokenizer.encode("ab\ud83dc")
    assert str(caught.value) == (
        "The text holds a lone surrogate (U+D83D) at position 2; it is not valid Unicode. Replace or remove it."
    )
    assert tokenizer.encode("") == [] and tokenizer.decode([]) == ""
