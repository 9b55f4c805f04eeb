"""Tokenizers from checkpoint directories, against transformers reading the same files."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tokenizers
from tokenizers import AddedToken, decoders, models, normalizers, pre_tokenizers, processors

from modelhost.api import TokenizerError
from modelhost.text import Tokenizer

WORDS = ["<unk>", "<s>", "</s>", "hello", "world", ".", "do", "n't", "##ly"]
TEXTS = ["hello world .", "", "hello <s> world</s>", "do n't hello", "unknown words"]


def write(folder: Path, backend: tokenizers.Tokenizer, **files: Any) -> Path:
    backend.save(str(folder / "tokenizer.json"))
    for name, content in files.items():
        (folder / f"{name}.json").write_text(json.dumps(content), encoding="utf-8")
    return folder


@pytest.fixture
def word_level() -> tokenizers.Tokenizer:
    backend = tokenizers.Tokenizer(models.WordLevel({word: index for index, word in enumerate(WORDS)}, "<unk>"))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    backend.add_special_tokens(["<unk>", "<s>", "</s>"])
    return backend


NAMED = {"unk_token": "<unk>", "bos_token": "<s>", "eos_token": {"__type": "AddedToken", "content": "</s>"}}
CONFIGS: dict[str, dict[str, Any]] = {
    "plain": {},
    "begin": {"add_bos_token": True},
    "end": {"add_bos_token": False, "add_eos_token": True},
    "both": {"add_bos_token": True, "add_eos_token": True},
    "clean up": {"clean_up_tokenization_spaces": True},
    "more tokens": {
        "added_tokens_decoder": {
            "9": {"content": "<tool>", "special": False, "normalized": False},
            "10": {"content": "<extra>", "special": True, "rstrip": True},
        }
    },
}


@pytest.mark.parametrize("config", CONFIGS)
def test_ids_and_text_equal_transformers(config: str, word_level: tokenizers.Tokenizer, tmp_path: Path) -> None:
    from transformers import PreTrainedTokenizerFast

    write(tmp_path, word_level, tokenizer_config={**NAMED, **CONFIGS[config]})
    tokenizer = Tokenizer.from_directory(tmp_path)
    # transformers 5 obeys these two flags as arguments only; llama.cpp's converter and transformers 4 read the file.
    flags = {key: value for key, value in CONFIGS[config].items() if key in ("add_bos_token", "add_eos_token")}
    expected = PreTrainedTokenizerFast.from_pretrained(tmp_path, **flags)
    for text in (*TEXTS, "hello<tool>world <extra> hello"):
        ids = tokenizer.encode(text)
        assert ids == expected.encode(text)
        assert tokenizer.encode(text, add_special_tokens=False) == expected.encode(text, add_special_tokens=False)
        for skip in (True, False):
            assert tokenizer.decode(ids, skip_special_tokens=skip) == expected.decode(ids, skip_special_tokens=skip)
    assert tokenizer.special_ids == set(expected.all_special_ids) | ({10} if config == "more tokens" else set())
    assert (tokenizer.bos_token_id, tokenizer.eos_token_ids, tokenizer.vocab_size) == (1, (2,), len(expected))


def test_flags_that_agree_or_are_null_leave_the_template_alone(
    word_level: tokenizers.Tokenizer, tmp_path: Path
) -> None:
    word_level.post_processor = processors.TemplateProcessing(
        single="<s> hello $A </s>", special_tokens=[("<s>", 1), ("hello", 3), ("</s>", 2)]
    )
    for flags, expected in (
        ({}, [1, 3, 4, 2]),
        ({"add_bos_token": True, "add_eos_token": None}, [1, 3, 4, 2]),
        ({"add_bos_token": False}, [4, 2]),
        ({"add_eos_token": False}, [1, 4]),
    ):
        write(tmp_path, word_level, tokenizer_config={**NAMED, **flags})
        assert Tokenizer.from_directory(tmp_path).encode("world") == expected


def test_the_end_tokens_come_from_the_generation_config(word_level: tokenizers.Tokenizer, tmp_path: Path) -> None:
    files = {"tokenizer_config": NAMED, "config": {"eos_token_id": 5}}
    assert Tokenizer.from_directory(write(tmp_path, word_level, **files)).eos_token_ids == (2, 5)
    files["generation_config"] = {"eos_token_id": [4, 2, 3]}
    assert Tokenizer.from_directory(write(tmp_path, word_level, **files)).eos_token_ids == (2, 4, 3)


def test_named_tokens_become_special(tmp_path: Path, word_level: tokenizers.Tokenizer) -> None:
    named = {"pad_token": "hello", "additional_special_tokens": ["world"]}
    tokenizer = Tokenizer.from_directory(write(tmp_path, word_level, special_tokens_map=named))
    assert tokenizer.special_ids == {0, 1, 2, 3, 4}
    assert tokenizer.encode("hellodo") == [3, 6]
    assert tokenizer.decode([3, 6, 4]) == "do"


def test_truncation_and_padding_in_the_file_are_ignored(tmp_path: Path, word_level: tokenizers.Tokenizer) -> None:
    word_level.enable_truncation(2)
    word_level.enable_padding(length=8)
    tokenizer = Tokenizer.from_directory(write(tmp_path, word_level))
    assert tokenizer.encode("hello world hello") == [3, 4, 3]


def test_spaces_are_not_cleaned_up_after_bpe(tmp_path: Path) -> None:
    backend = tokenizers.Tokenizer(models.BPE({"a": 0, "\u0120": 1, ".": 2}, []))
    backend.decoder = decoders.ByteLevel()
    write(tmp_path, backend, tokenizer_config={"clean_up_tokenization_spaces": True})
    tokenizer = Tokenizer.from_directory(tmp_path)
    assert tokenizer.decode([0, 1, 2]) == "a ."


def test_a_bert_tokenizer_keeps_its_own_template(tmp_path: Path) -> None:
    from transformers import PreTrainedTokenizerFast

    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "hello", "##ly", "do", "n", "'", "t", "."]
    backend = tokenizers.Tokenizer(
        models.WordPiece({word: index for index, word in enumerate(words)}, unk_token="[UNK]")
    )
    backend.normalizer, backend.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
    backend.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    backend.decoder = decoders.WordPiece()
    backend.add_special_tokens([AddedToken(word, special=True) for word in words[:4]])
    config = {"clean_up_tokenization_spaces": True, "cls_token": "[CLS]", "sep_token": "[SEP]", "unk_token": "[UNK]"}
    write(tmp_path, backend, tokenizer_config=config)
    tokenizer, expected = Tokenizer.from_directory(tmp_path), PreTrainedTokenizerFast.from_pretrained(tmp_path)
    for text in ("Hellyo hello. don't", "hellolyly do n ' t ."):
        ids = tokenizer.encode(text)
        assert ids == expected.encode(text) and ids[0] == 2
        assert tokenizer.decode(ids) == expected.decode(ids, skip_special_tokens=True)
        stream = tokenizer.stream()
        assert "".join(map(stream.push, ids)) + stream.finish() == tokenizer.decode(ids)
    assert tokenizer.eos_token_ids == () and tokenizer.bos_token_id is None


def test_a_real_tokenizer_saved_and_read_back(tmp_path: Path, real_tokenizer: Callable[[str], Tokenizer]) -> None:
    built = real_tokenizer("qwen2.5-coder")
    config = {"eos_token": "<|im_end|>", "chat_template": built.chat_template}
    tokenizer = Tokenizer.from_directory(write(tmp_path, built.backend, tokenizer_config=config))
    text = built.apply_chat_template([{"role": "user", "content": "你好 🙂 <tool_call>"}])
    ids = built.encode(text)
    assert tokenizer.encode(text) == ids
    assert tokenizer.decode(ids) == built.decode(ids)
    assert tokenizer.apply_chat_template([{"role": "user", "content": "你好 🙂 <tool_call>"}]) == text
    assert tokenizer.special_ids == built.special_ids


def test_chat_template_files(tmp_path: Path, word_level: tokenizers.Tokenizer) -> None:
    def templates(config: Any) -> dict[str, str]:
        return Tokenizer.from_directory(
            write(tmp_path, word_level, tokenizer_config={"chat_template": config})
        ).chat_templates

    assert templates(None) == {}
    assert templates("in config") == {"default": "in config"}
    pair = [{"name": "default", "template": "d"}, {"name": "tool_use", "template": "t"}]
    assert templates(pair) == {"default": "d", "tool_use": "t"}
    (tmp_path / "chat_template.jinja").write_text("in a file\n")
    (tmp_path / "additional_chat_templates").mkdir()
    (tmp_path / "additional_chat_templates" / "rag.jinja").write_text("rag")
    assert templates("in config") == {"default": "in a file\n", "rag": "rag"}


def test_missing_and_corrupt_files(tmp_path: Path, word_level: tokenizers.Tokenizer) -> None:
    with pytest.raises(TokenizerError) as caught:
        Tokenizer.from_directory(tmp_path)
    assert str(caught.value) == (
        f"{tmp_path / 'tokenizer.json'} does not exist. modelhost reads tokenizer.json; save the tokenizer in that "
        "form (transformers: AutoTokenizer.from_pretrained(...).save_pretrained(DIRECTORY)) or use a GGUF file."
    )
    (tmp_path / "tokenizer.json").write_text('{"version": "1.0",')
    with pytest.raises(TokenizerError) as caught:
        Tokenizer.from_directory(tmp_path)
    assert str(caught.value) == (
        f"{tmp_path / 'tokenizer.json'} is not a valid tokenizer: EOF while parsing a value at line 1 column 18. "
        "Fetch the file again."
    )
    (tmp_path / "tokenizer.json").write_bytes(b"\xff\xfe{")
    with pytest.raises(TokenizerError, match=r"tokenizer\.json cannot be read: 'utf-8' codec can't decode byte 0xff"):
        Tokenizer.from_directory(tmp_path)
    write(tmp_path, word_level)
    (tmp_path / "tokenizer_config.json").write_text("{]")
    with pytest.raises(TokenizerError, match=r"tokenizer_config\.json is not valid JSON: .*line 1 column 2"):
        Tokenizer.from_directory(tmp_path)
    (tmp_path / "tokenizer_config.json").write_text("[]")
    with pytest.raises(TokenizerError, match=r"tokenizer_config\.json holds a list where an object is expected\.$"):
        Tokenizer.from_directory(tmp_path)


def test_files_that_contradict_each_other(tmp_path: Path, word_level: tokenizers.Tokenizer) -> None:
    config = {"added_tokens_decoder": {"30": {"content": "<late>"}}}
    with pytest.raises(TokenizerError) as caught:
        Tokenizer.from_directory(write(tmp_path, word_level, tokenizer_config=config))
    assert str(caught.value) == (
        f"{tmp_path / 'tokenizer_config.json'}, added_tokens_decoder: '<late>' has id 30 there but 9 after "
        "tokenizer.json. The two files do not match."
    )
    with pytest.raises(TokenizerError, match=r"generation_config\.json, eos_token_id: 'x' is neither a token id nor"):
        Tokenizer.from_directory(
            write(tmp_path, word_level, tokenizer_config={}, generation_config={"eos_token_id": "x"})
        )


def test_the_response_template_is_read_as_transformers_reads_it(
    word_level: tokenizers.Tokenizer, tmp_path: Path
) -> None:
    from transformers import PreTrainedTokenizerFast

    template = {"start_anchor": "<s>", "fields": {"content": {}}}
    write(tmp_path, word_level, tokenizer_config={**NAMED, "response_template": template})
    assert Tokenizer.from_directory(tmp_path).response_template == template
    assert PreTrainedTokenizerFast.from_pretrained(tmp_path).response_template == template


def test_a_response_template_that_is_no_object_is_refused(word_level: tokenizers.Tokenizer, tmp_path: Path) -> None:
    write(tmp_path, word_level, tokenizer_config={"response_template": "x"})
    with pytest.raises(TokenizerError, match="response_template: holds a str"):
        Tokenizer.from_directory(tmp_path)
