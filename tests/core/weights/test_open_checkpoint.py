from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from modelhost.api import CheckpointError
from modelhost.weights.encoding_table import EncodingTable
from modelhost.weights.open import open_checkpoint


@pytest.fixture
def gguf(gguf_bytes: Any) -> bytes:
    return gguf_bytes.file([gguf_bytes.architecture()])


def refusal(path: Path, encodings: EncodingTable) -> str:
    with pytest.raises(CheckpointError) as error:
        open_checkpoint(path, encodings)
    return str(error.value)


def test_a_path_that_does_not_exist(tmp_path: Path, encodings: EncodingTable) -> None:
    path = tmp_path / "nowhere"
    assert refusal(path, encodings) == f"{path} does not exist. Check the path, or download the model."


def test_an_empty_directory(tmp_path: Path, encodings: EncodingTable) -> None:
    assert refusal(tmp_path, encodings) == f"{tmp_path} is an empty directory. Download the model into it."


def test_a_directory_with_one_gguf_file(tmp_path: Path, gguf: bytes, encodings: EncodingTable) -> None:
    (tmp_path / "only.gguf").write_bytes(gguf)
    assert open_checkpoint(tmp_path, encodings).architecture == "llama"


def test_a_config_beside_one_gguf_file_does_not_hide_it(model_dir: Path, gguf: bytes, encodings: EncodingTable) -> None:
    (model_dir / "only.gguf").write_bytes(gguf)
    assert open_checkpoint(model_dir, encodings).format == "gguf"


def test_safetensors_win_over_gguf(
    model_dir: Path, gguf: bytes, safetensors_file: Any, encodings: EncodingTable
) -> None:
    (model_dir / "only.gguf").write_bytes(gguf)
    safetensors_file({})
    assert open_checkpoint(model_dir, encodings).format == "safetensors"


def test_several_gguf_models_are_listed(tmp_path: Path, gguf: bytes, encodings: EncodingTable) -> None:
    for name in ("b-00001-of-00002.gguf", "b-00002-of-00002.gguf", "a.gguf"):
        (tmp_path / name).write_bytes(gguf)
    assert refusal(tmp_path, encodings) == (
        f"{tmp_path} has 2 GGUF models: a.gguf, b-00001-of-00002.gguf. Give the path of one of them."
    )


def test_a_file_of_another_kind(tmp_path: Path, encodings: EncodingTable) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(b"PK\x03\x04 a zip file")
    assert refusal(path, encodings) == (
        f"{path} starts with b'PK\\x03\\x04' instead of b\"GGUF\". "
        "The file is corrupt or incomplete: download it again."
    )


def test_a_device_is_not_opened(encodings: EncodingTable) -> None:
    assert refusal(Path("/dev/null"), encodings) == (
        "/dev/null is not a regular file. Give the path of a checkpoint file."
    )


def test_a_home_directory_is_expanded(
    tmp_path: Path, gguf: bytes, encodings: EncodingTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "model.gguf").write_bytes(gguf)
    assert open_checkpoint("~/model.gguf", encodings).path == tmp_path / "model.gguf"


def test_a_path_that_the_system_refuses(tmp_path: Path, encodings: EncodingTable) -> None:
    path = tmp_path / ("a" * 5000)
    assert refusal(path, encodings) == f"{path} cannot be read: File name too long. Check the path and its permissions."


def test_an_unknown_home_directory(encodings: EncodingTable) -> None:
    assert refusal(Path("~nobody.of.this.name/a.gguf"), encodings) == (
        "~nobody.of.this.name/a.gguf does not exist. Check the path, or download the model."
    )
