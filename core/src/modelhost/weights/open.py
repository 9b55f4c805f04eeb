"""Opening a checkpoint by what is on disk."""

from __future__ import annotations

import os
from pathlib import Path

from modelhost.api import CheckpointError

from .checkpoint import Checkpoint
from .encoding_table import EncodingTable
from .gguf_checkpoint import open_gguf, split_stem
from .safetensors_dir import has_safetensors, open_safetensors_dir


def open_checkpoint(path: str | Path, encodings: EncodingTable) -> Checkpoint:
    """Open a .gguf file, or a directory with safetensors weights or exactly one GGUF model (single or split).

    Raises:
        CheckpointError: nothing is there, it is ambiguous, or a file is missing, truncated or corrupt.
        UnsupportedError: the weights are in a format or version that is not read.
    """
    path = Path(os.path.expanduser(path))
    try:
        return _open(path, encodings)
    except OSError as error:
        raise CheckpointError(
            f"{path} cannot be read: {error.strerror}. Check the path and its permissions."
        ) from error


def _open(path: Path, encodings: EncodingTable) -> Checkpoint:
    if not path.exists():
        raise CheckpointError(f"{path} does not exist. Check the path, or download the model.")
    if not path.is_dir():
        return open_gguf(path, encodings)
    if has_safetensors(path):
        return open_safetensors_dir(path, encodings)
    models = _gguf_models(path)
    if len(models) > 1:
        names = ", ".join(first.name for first in models[:10])
        raise CheckpointError(f"{path} has {len(models)} GGUF models: {names}. Give the path of one of them.")
    if models:
        return open_gguf(models[0], encodings)
    if not any(path.iterdir()):
        raise CheckpointError(f"{path} is an empty directory. Download the model into it.")
    return open_safetensors_dir(path, encodings)


def _gguf_models(path: Path) -> list[Path]:
    firsts: dict[str, Path] = {}
    for file in sorted(path.glob("*.gguf")):
        firsts.setdefault(split_stem(file), file)
    return list(firsts.values())
