"""A GGUF checkpoint: one file, or a split set named ``NAME-00001-of-00003.gguf``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from modelhost.api import CheckpointError

from .checkpoint import Checkpoint
from .encoding_table import EncodingTable
from .entry import Entry
from .gguf_file import GGUFFile, read_gguf_file
from .mapped_file import corrupt

_SPLIT_NAME = re.compile(r"(?P<stem>.+)-(?P<number>\d{5})-of-(?P<total>\d{5})\.gguf")
_SAMPLING_KEYS = {
    "general.sampling.temp": "temperature",
    "general.sampling.top_k": "top_k",
    "general.sampling.top_p": "top_p",
    "general.sampling.min_p": "min_p",
    "general.sampling.penalty_repeat": "repetition_penalty",
}


def open_gguf(path: Path, encodings: EncodingTable) -> Checkpoint:
    """Open a file, or the whole split set that it belongs to. Metadata are those of the first file of the set.

    Raises:
        CheckpointError: a file is missing, truncated, corrupt or not of this set.
        UnsupportedError: a file is big-endian or of another GGUF version.
    """
    files = _split_set(read_gguf_file(path, encodings), encodings)
    metadata = files[0].metadata
    return Checkpoint(path, "gguf", metadata, _generation_config(metadata), _merged(files), encodings)


def split_stem(path: Path) -> str:
    """The name that all files of a split set share; the file's own name when it is not one of a set."""
    match = _SPLIT_NAME.fullmatch(path.name)
    return f"{match['stem']}-of-{match['total']}.gguf" if match else path.name


def _split_set(opened: GGUFFile, encodings: EncodingTable) -> list[GGUFFile]:
    total = opened.metadata.get("split.count", 1)
    if not isinstance(total, int) or total <= 1:
        return [opened]
    paths = _split_paths(opened.path, total)
    missing = [path.name for path in paths if not path.exists()]
    if missing:
        raise CheckpointError(
            f"{opened.path} belongs to a set of {total} files, {len(missing)} missing: {', '.join(missing[:10])}. "
            "Download them into the same directory."
        )
    files = [opened if path == opened.path else read_gguf_file(path, encodings) for path in paths]
    _check_set(files, total)
    return files


def _split_paths(path: Path, total: int) -> list[Path]:
    match = _SPLIT_NAME.fullmatch(path.name)
    if not match or int(match["total"]) != total:
        raise CheckpointError(
            f"{path} belongs to a set of {total} files (split.count), "
            f"which must be named like NAME-00001-of-{total:05d}.gguf. Give the files their original names."
        )
    return [path.with_name(f"{match['stem']}-{number:05d}-of-{total:05d}.gguf") for number in range(1, total + 1)]


def _check_set(files: Sequence[GGUFFile], total: int) -> None:
    for number, file in enumerate(files):
        stated = file.metadata.get("split.no"), file.metadata.get("split.count")
        if stated != (number, total):
            raise corrupt(
                file.path,
                f"states split.no {stated[0]} and split.count {stated[1]}, but its name says {number} and {total}",
            )
    wanted = files[0].metadata.get("split.tensors.count")
    found = sum(len(file.entries) for file in files)
    if wanted is not None and wanted != found:
        raise corrupt(files[0].path, f"states split.tensors.count {wanted}, but the {total} files have {found} tensors")


def _merged(files: Iterable[GGUFFile]) -> list[Entry]:
    owners: dict[str, Entry] = {}
    for file in files:
        for entry in file.entries:
            other = owners.setdefault(entry.name, entry)
            if other is not entry:
                raise corrupt(file.path, f"has the tensor {entry.name!r}, which {other.file.path.name} has too")
    return list(owners.values())


def _generation_config(metadata: Mapping[str, Any]) -> dict[str, Any]:
    return {name: metadata[key] for key, name in _SAMPLING_KEYS.items() if key in metadata}
