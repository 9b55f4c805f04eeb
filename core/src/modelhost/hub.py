"""Finding a model: a path on disk, or a Hugging Face id in the local cache or, where the network allows, on the hub."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path

from modelhost.api import CheckpointError

__all__ = ["resolve"]

_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+")
_FILES = ["*.json", "*.safetensors", "*.jinja", "tokenizer*"]


def resolve(model: str, *, revision: str | None = None) -> Path:
    """The checkpoint's path.

    Args:
        model: a directory, a ``.gguf`` file, or an id such as ``org/name``.
        revision: branch, tag or commit of a hub id.

    Raises:
        CheckpointError: nothing is there, and it cannot be downloaded.
    """
    path = Path(model).expanduser()
    if path.exists():
        return path
    if not _ID.fullmatch(model):
        raise CheckpointError(
            f"{model} does not exist. Give a directory with config.json, a .gguf file, or a Hugging Face id such as "
            "org/name."
        )
    return _from_hub(model, revision)


def _from_hub(model: str, revision: str | None) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import LocalEntryNotFoundError

    download = partial(snapshot_download, model, revision=revision, allow_patterns=_FILES)
    try:
        try:
            return Path(download(local_files_only=True))
        except LocalEntryNotFoundError:
            return Path(download())
    except Exception as error:  # the network library below has errors of its own, which differ between versions
        lines = str(error).removeprefix("Got: ").splitlines()
        cause = lines[0] if lines else type(error).__name__
        raise CheckpointError(
            f"{model} is neither a path nor in the Hugging Face cache, and it could not be downloaded: {cause}"
        ) from error
