"""``modelhost tokenize``."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from .conftest import Cli


def test_pieces(cli: Cli, tiny: str) -> None:
    result = cli("tokenize", tiny, "a é")
    assert result.code == 0
    assert [line.split(maxsplit=1)[1] for line in result.out.splitlines()] == [
        "'<|begin|>'",
        "'a'",
        "' '",
        r"b'\xc3'",
        r"b'\xa9'",
    ]


def test_ids_are_a_json_list(cli: Cli, tiny: str) -> None:
    with_begin = json.loads(cli("tokenize", tiny, "ab", "--ids").out)
    without = json.loads(cli("tokenize", tiny, "ab", "--ids", "--no-special").out)
    assert with_begin == [256, *without]
    assert len(without) == 2


def test_json(cli: Cli, tiny: str) -> None:
    data = json.loads(cli("tokenize", tiny, "<|user|>b", "--json").out)
    assert data["count"] == 3
    assert data["pieces"] == ["<|begin|>", "<|user|>", "b"]
    assert data["ids"][:2] == [256, 258]


def test_standard_input_is_taken_as_it_is(cli: Cli, tiny: str) -> None:
    data = json.loads(cli("tokenize", tiny, "--json", "--no-special", stdin=b"a\n").out)
    assert data["pieces"] == ["a", "\n"]
    assert cli("tokenize", tiny, "--no-special").out == ""


def test_weights_are_not_needed(cli: Cli, tiny: str, tmp_path: Path) -> None:
    for file in ("tokenizer.json", "tokenizer_config.json"):
        (tmp_path / file).write_bytes((Path(tiny) / file).read_bytes())
    assert cli("tokenize", str(tmp_path), "ab", "--ids").out == cli("tokenize", tiny, "ab", "--ids").out


def test_gguf_file(cli: Cli, checkpoint_file: Callable[[str], Path]) -> None:
    model = str(checkpoint_file("smollm2"))
    assert cli("tokenize", model, "hello", "--ids").out == "[28120]\n"
    pieces = json.loads(cli("tokenize", model, "hello world<|im_end|>", "--json").out)["pieces"]
    assert pieces == ["hello", " world", "<|im_end|>"]


def test_ids_and_json_exclude_each_other(cli: Cli, tiny: str) -> None:
    result = cli("tokenize", tiny, "a", "--ids", "--json")
    assert result.code == 2
    assert "--ids and --json exclude each other" in result.err


def test_text_that_is_not_unicode(cli: Cli, tiny: str) -> None:
    result = cli("tokenize", tiny, "a\udcff")
    assert result.code == 1
    assert result.err.startswith("error: The text holds a lone surrogate (U+DCFF) at position 1;")


def test_checkpoint_without_tokenizer(cli: Cli, tiny: str, tmp_path: Path) -> None:
    for file in ("model.safetensors", "config.json"):
        (tmp_path / file).write_bytes((Path(tiny) / file).read_bytes())
    result = cli("tokenize", str(tmp_path), "a")
    assert result.code == 1
    assert result.err.startswith(f"error: {tmp_path}/tokenizer.json does not exist.")
