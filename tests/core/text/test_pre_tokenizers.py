"""The splits of `tokenizer.ggml.pre`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from modelhost.api import TokenizerError, UnsupportedError
from modelhost.text import Tokenizer
from modelhost.text.pre_tokenizers import PRE_TOKENIZERS

CODE = "foo_bar(x1234567);\n\n  y=½²"
TALK = "I'm HE'LL  don't"
ASIAN = "你好World世界 もじ 한국"
LINES = "\t\tif a:\r\n   \n b  "
MARKS = "कि naïve HTMLParser's"

# What the letters, digits, punctuation and space rules of each expression say about the texts above:
#   digits: all together (+), one by one (1), three by three from the left (3) or from the right (-3);
#   contractions: kept whole in lower case only (GPT-2), in any case (Llama 3), as part of the word (GPT-4o), or cut;
#   a letter run may take one leading non-letter along ("_bar", "\tif") from the cl100k family on.
GPT2 = ["foo", "_", "bar", "(", "x", "1234567", ");", "\n\n ", " y", "=", "½²"]
SINGLE = ["foo", "_", "bar", "(", "x", *"1234567", ");", "\n\n ", " y", "=", "½", "²"]
LLAMA3 = ["foo", "_bar", "(x", "123", "456", "7", ");\n\n", " ", " y", "=", "½²"]
QWEN2 = ["foo", "_bar", "(x", *"1234567", ");\n\n", " ", " y", "=", "½", "²"]
FROM_RIGHT = ["foo", "_bar", "(x", "1", "234", "567", ");\n\n", " ", " y", "=", "½²"]
CUT_WORDS = ["I", "'", "m", " HE", "'", "LL", " ", " don", "'", "t"]
LOWER_CONTRACTIONS = ["I", "'m", " HE", "'", "LL", " ", " don", "'t"]
CONTRACTIONS = ["I", "'m", " HE", "'LL", " ", " don", "'t"]
ATTACHED = ["I'm", " HE'LL", " ", " don't"]
LINES_GPT2 = ["\t", "\t", "if", " a", ":", "\r\n   \n", " b", "  "]
LINES_LLAMA3 = ["\t", "\tif", " a", ":\r\n", "   \n", " b", "  "]
WORDS = ["你好World世界", " もじ", " 한국"]
LETTERS = ["क", "ि", " naïve", " HTMLParser", "'s"]
WITH_MARKS = ["कि", " naïve", " HTMLParser", "'s"]

EXPECTED: dict[str, dict[str, list[str]]] = {
    "gpt-2": {CODE: GPT2, TALK: LOWER_CONTRACTIONS, ASIAN: WORDS, LINES: LINES_GPT2, MARKS: LETTERS},
    "smollm": {CODE: SINGLE, TALK: LOWER_CONTRACTIONS, ASIAN: WORDS, LINES: LINES_GPT2, MARKS: LETTERS},
    "llama-bpe": {CODE: LLAMA3, TALK: CONTRACTIONS, ASIAN: WORDS, LINES: LINES_LLAMA3, MARKS: LETTERS},
    "dbrx": {CODE: LLAMA3, TALK: CONTRACTIONS, LINES: LINES_LLAMA3},
    "glm4": {CODE: LLAMA3, TALK: CONTRACTIONS, LINES: LINES_LLAMA3},
    "jais-2": {CODE: LLAMA3, TALK: CONTRACTIONS, "a" + " " * 7 + "b": ["a", "    ", "  ", " b"]},
    "minicpm5": {CODE: LLAMA3, TALK: CONTRACTIONS, LINES: LINES_LLAMA3},
    "qwen2": {CODE: QWEN2, TALK: CONTRACTIONS, ASIAN: WORDS, LINES: LINES_LLAMA3, MARKS: LETTERS},
    "qwen35": {CODE: QWEN2, TALK: CONTRACTIONS, MARKS: WITH_MARKS},
    "ufakzeka": {CODE: QWEN2, "İstanbul'dan geldim": ["İstanbul", "'dan", " geldim"]},
    "laguna": {CODE: [*QWEN2[:10], ");", "\n\n", *QWEN2[11:]], "a  \nb": ["a", "  ", "\n", "b"]},
    "tekken": {CODE: QWEN2, TALK: CONTRACTIONS, "XMLHttp": ["XMLHttp"], "aB": ["a", "B"], MARKS: WITH_MARKS},
    "gpt-4o": {CODE: LLAMA3, TALK: ATTACHED, "aBc": ["a", "Bc"], "a//\nb": ["a", "//\n", "b"]},
    "granite-embed-multi-97m": {CODE: LLAMA3, TALK: ATTACHED, "कि": ["कि"]},
    "tiny_aya": {CODE: FROM_RIGHT, TALK: ATTACHED, "12 1234": ["12", " ", "1", "234"]},
    "kimi-k2": {CODE: LLAMA3, TALK: ATTACHED, ASIAN: ["你好", "World", "世界", " もじ", " 한국"]},
    "youtu": {
        CODE: QWEN2,
        TALK: ATTACHED,
        ASIAN: ["你好", "World", "世界", " ", "もじ", " ", "한국"],
        "你\uff0c好——": ["你", "\uff0c", "好", "——"],
    },
    "deepseek-v3": {CODE: LLAMA3, ASIAN: ["你好", "World", "世界", " ", "もじ", " 한국"], MARKS: WITH_MARKS},
    "spark2_5": {CODE: ["foo", "_bar", "(x", *"1234567", ");", "\n", "\n", " ", " y", "=", "½", "²"]},
    "deepseek-llm": {
        CODE: ["foo", "_", "bar", "(", "x", "1234567", ");", "\n", "\n", " ", " y", "=", "½²"],
        TALK: CUT_WORDS,
        ASIAN: ["你好", "World", "世界", " ", "もじ", " ", "한국"],
        # Its punctuation range ":-~" holds the ASCII letters too, and so cuts words at other letters.
        "Straße µΩμέγαͲ": ["Stra", "ß", "e", " µΩμέγαͲ"],
    },
    "deepseek-coder": {
        CODE: ["foo", "_", "bar", "(", "x", *"1234567", ");", "\n", "\n", " ", " y", "=", "½", "²"],
        TALK: CUT_WORDS,
        MARKS: ["क", "ि", " naïve", " HTMLParser", "'", "s"],
    },
    "falcon": {CODE: ["foo", "_", "bar", "(", "x", "123", "456", "7", ");", "\n\n ", " y", "=", "½²"], TALK: CUT_WORDS},
    "default": {
        CODE: ["foo", "_", "bar", "(", "x", "123", "456", "7", ");", "\n\n ", " y", "=", "½²"],
        TALK: CUT_WORDS,
    },
    "bloom": {TALK: ATTACHED, "a, b.c、d": ["a", ",", " b", ".", "c", "、", "d"], "1234": ["1234"]},
    "viking": {TALK: ATTACHED, "1234": [*"1234"]},
    "chameleon": {"IMGIMGABZ<sentinel:42>x1\n  y": ["IMGIMGABZ", "<", "sentinel", ":", *"42>x1\n", "  ", "y"]},
    "superbpe": {CODE: ["foo_bar(x", "1", "234", "567", ");\n\n  y=", "½²"], TALK: [TALK]},
    "bailingmoe": {CODE: QWEN2, TALK: CONTRACTIONS, "a \n\n\nb": ["a", " \n\n\n", "b"]},
    "seed-coder": {CODE: [*QWEN2[:10], ");", "\n\n", *QWEN2[11:]], TALK: CONTRACTIONS},
    "afmoe": {CODE: FROM_RIGHT, "1234 12": ["1", "234", " ", "12"], "世界ab": ["世界", "ab"], "ສບາຍ!": ["ສບາຍ", "!"]},
    "exaone-moe": {
        "가 나다 1!//\n": ["가 나다", " ", "1", "!//\n"],
        TALK: ["I", "'m", " HE", "'LL", " ", " don", "'t"],
    },
    "gemma4": {"a b\n\n\nc": ["a b", "\n\n\n", "c"]},
}


@pytest.mark.parametrize(("name", "text"), [(name, text) for name, texts in EXPECTED.items() for text in texts])
def test_splits(name: str, text: str, byte_level_metadata: Callable[..., dict[str, Any]]) -> None:
    tokenizer = Tokenizer.from_gguf(byte_level_metadata(ggml__bos_token_id=0), pre_tokenizer=name)
    assert pieces(tokenizer, text) == EXPECTED[name][text]


def pieces(tokenizer: Tokenizer, text: str) -> list[str]:
    found = tokenizer.backend.pre_tokenizer.pre_tokenize_str(text)
    return [text[start:end] for _, (start, end) in found]


def test_every_split_has_an_expectation() -> None:
    shown = {PRE_TOKENIZERS[name].splits for name in EXPECTED}
    assert {entry.splits for entry in PRE_TOKENIZERS.values()} == shown


@pytest.mark.parametrize("name", sorted(PRE_TOKENIZERS))
def test_every_name_builds_and_loses_nothing(name: str, byte_level_metadata: Callable[..., dict[str, Any]]) -> None:
    metadata = byte_level_metadata(ggml__bos_token_id=0, ggml__pre=name)
    tokenizer = Tokenizer.from_gguf(metadata)
    for text in (CODE, TALK, ASIAN, LINES, MARKS, "🙂\u0301\u0000 \u3000"):
        assert "".join(pieces(tokenizer, text)) == text
        if not PRE_TOKENIZERS[name].raw_text:
            assert tokenizer.decode(tokenizer.encode(text, add_special_tokens=False)) == text


def test_a_whole_piece_in_the_vocabulary_is_taken_without_merging(
    byte_level_metadata: Callable[..., dict[str, Any]],
) -> None:
    # "abc" is a token, but its merges lead elsewhere: "b c" comes first and "a bc" is no merge.
    metadata = byte_level_metadata(("b c", "a b", "ab c"), ggml__bos_token_id=0, ggml__add_bos_token=False)
    taken = Tokenizer.from_gguf(metadata, pre_tokenizer="llama-bpe")
    merged = Tokenizer.from_gguf(metadata, pre_tokenizer="qwen2")
    assert taken.encode("abc") == [taken.token_id("abc")]
    assert merged.encode("abc") == [merged.token_id("a"), merged.token_id("bc")]


def test_an_unknown_name_is_refused(byte_level_metadata: Callable[..., dict[str, Any]]) -> None:
    with pytest.raises(TokenizerError) as caught:
        Tokenizer.from_gguf(byte_level_metadata(ggml__pre="qwen3.5"))
    assert str(caught.value) == (
        "GGUF field 'tokenizer.ggml.pre': unknown pre-tokenizer 'qwen3.5'. The closest known ones are "
        "'qwen35', 'qwen2', 'deepseek-r1-qwen'. If it splits text as one of them does, pass pre_tokenizer=NAME."
    )
    with pytest.raises(TokenizerError) as caught:
        Tokenizer.from_gguf(byte_level_metadata(ggml__pre=None))
    assert str(caught.value) == (
        "GGUF field 'tokenizer.ggml.pre' is missing, so how this vocabulary splits text is unknown. "
        "Convert the model again with a current converter, or pass pre_tokenizer=NAME."
    )
    with pytest.raises(UnsupportedError, match=r"the pre-tokenizer 'whitespace' is not supported\.$"):
        Tokenizer.from_gguf(byte_level_metadata(ggml__pre="whitespace"))
