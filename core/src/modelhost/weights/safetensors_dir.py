"""A Hugging Face model directory: config.json and one or more safetensors files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from modelhost.api import CheckpointError, UnsupportedError

from .checkpoint import Checkpoint
from .encoding_table import EncodingTable
from .entry import Entry
from .json_file import read_json_object
from .safetensors_file import read_safetensors_file

WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"
_TORCH_PATTERNS = ("pytorch_model*.bin", "*.pt", "*.pth")


def open_safetensors_dir(path: Path, encodings: EncodingTable) -> Checkpoint:
    """Open a directory with config.json and model.safetensors, or its index and shards.

    Raises:
        CheckpointError: a file is missing, truncated or corrupt.
        UnsupportedError: the weights are only there as PyTorch pickles.
    """
    config_path = path / "config.json"
    if not config_path.is_file():
        raise CheckpointError(
            f"{path} has no config.json. Give the path of a Hugging Face model directory or of a .gguf file."
        )
    config = read_json_object(config_path)
    generation_path = path / "generation_config.json"
    generation = read_json_object(generation_path) if generation_path.is_file() else {}
    return Checkpoint(path, "safetensors", config, generation, _entries(path, encodings), encodings)


def has_safetensors(path: Path) -> bool:
    """Whether a directory holds safetensors weights under the names that are read."""
    return (path / INDEX).is_file() or (path / WEIGHTS).is_file()


def _entries(path: Path, encodings: EncodingTable) -> list[Entry]:
    if (path / INDEX).is_file():
        return _sharded(path, encodings)
    if (path / WEIGHTS).is_file():
        return list(read_safetensors_file(path / WEIGHTS, encodings).values())
    raise _no_weights(path)


def _sharded(path: Path, encodings: EncodingTable) -> list[Entry]:
    weight_map = _weight_map(path / INDEX)
    names = sorted(set(weight_map.values()))
    missing = [name for name in names if not (path / name).exists()]
    if missing:
        raise CheckpointError(
            f"{path}: {INDEX} names {len(names)} files, {len(missing)} missing: {', '.join(missing[:10])}. "
            "Download them into the same directory."
        )
    shards = {name: read_safetensors_file(path / name, encodings) for name in names}
    absent = [tensor for tensor, name in weight_map.items() if tensor not in shards[name]]
    if absent:
        raise CheckpointError(
            f"{path}: {INDEX} places {absent[0]!r} in {weight_map[absent[0]]}, which does not have it "
            f"(tensors placed wrongly: {len(absent)}). Download the index and that file again."
        )
    return [shards[name][tensor] for tensor, name in weight_map.items()]


def _weight_map(path: Path) -> Mapping[str, str]:
    weight_map: Any = read_json_object(path).get("weight_map")
    if not isinstance(weight_map, dict) or not all(isinstance(name, str) for name in weight_map.values()):
        raise CheckpointError(f"{path} has no weight_map from tensor names to file names. Download it again.")
    for name in set(weight_map.values()):
        parts = PurePosixPath(name).parts
        if not parts or parts[0] == "/" or ".." in parts or "\\" in name or "\0" in name or ":" in name:
            raise CheckpointError(
                f"{path} names the file {name!r}, which is outside of its directory. Do not use this checkpoint."
            )
    return weight_map


def _no_weights(path: Path) -> Exception:
    if any(any(path.glob(pattern)) for pattern in _TORCH_PATTERNS):
        return UnsupportedError(
            f"{path} has its weights only as PyTorch pickle files, which can run code when they are read. "
            "Convert them to safetensors (https://huggingface.co/docs/safetensors/convert-weights), "
            "or use a checkpoint that has them."
        )
    others = sorted(file.name for file in path.glob("*.safetensors"))
    found = f" It has {', '.join(others[:3])}." if others else ""
    return CheckpointError(f"{path} has no {WEIGHTS} and no {INDEX}.{found} Download the weights into it.")
