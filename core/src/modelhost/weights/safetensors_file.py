"""One safetensors file: its header, checked against the file's size.

Format: https://github.com/huggingface/safetensors#format
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeGuard

from .cursor import Cursor
from .encoding_table import EncodingTable
from .entry import Entry, encoded_nbytes, shape_problem
from .mapped_file import MappedFile, corrupt, map_file

_MOST_HEADER_BYTES = 100_000_000
"""The limit of the reference implementation."""


def read_safetensors_file(path: Path, encodings: EncodingTable) -> dict[str, Entry]:
    """Map a file and check its header. No tensor data is touched.

    Raises:
        CheckpointError: the file is missing, truncated or corrupt.
    """
    file = map_file(path)
    cursor = Cursor(file)
    size = cursor.u64("the header length")
    if size > _MOST_HEADER_BYTES:
        raise corrupt(path, f"states a header of {size} bytes, more than the {_MOST_HEADER_BYTES} that are allowed")
    if size > cursor.remaining:
        raise corrupt(path, f"states a header of {size} bytes, more than its {file.size} bytes can hold")
    start = 8 + size
    header = _header(path, file.data[8:start])
    header.pop("__metadata__", None)
    entries = {name: _entry(file, name, fields, start, encodings) for name, fields in header.items()}
    _check_extents(file, sorted(entries.values(), key=_extent), start)
    return entries


def _header(path: Path, text: bytes) -> dict[str, Any]:
    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        fields = dict(pairs)
        if len(fields) != len(pairs):
            names = [name for name, _ in pairs]
            twice = next(name for name in names if names.count(name) > 1)
            raise corrupt(path, f"has {twice!r} twice in its header")
        return fields

    try:
        header = json.loads(text, object_pairs_hook=unique)
    except (ValueError, RecursionError) as error:
        raise corrupt(path, f"has a header that is not JSON ({error})") from error
    if not isinstance(header, dict):
        raise corrupt(path, f"has a header that is {type(header).__name__}, not an object")
    return header


def _entry(file: MappedFile, name: str, fields: Any, start: int, encodings: EncodingTable) -> Entry:
    dtype, shape, begin, end = _fields(file, name, fields)
    encoding = encodings.find_safetensors_dtype(dtype)
    problem = shape_problem(shape, encoding)
    if problem:
        raise corrupt(file.path, f"has tensor {name!r}, which {problem}")
    if start + end > file.size:
        raise corrupt(file.path, f"has {file.size} bytes, but tensor {name!r} ends at byte {start + end}")
    if encoding and end - begin != encoded_nbytes(encoding, shape):
        raise corrupt(
            file.path,
            f"has {end - begin} bytes for tensor {name!r}, "
            f"but {dtype} of shape {shape} takes {encoded_nbytes(encoding, shape)}",
        )
    return Entry(name, shape, dtype, encoding, file, start + begin, end - begin)


def _fields(file: MappedFile, name: str, fields: Any) -> tuple[str, tuple[int, ...], int, int]:
    if isinstance(fields, dict):
        dtype, shape, offsets = fields.get("dtype"), fields.get("shape"), fields.get("data_offsets")
        if (
            isinstance(dtype, str)
            and _sizes(shape)
            and _sizes(offsets)
            and len(offsets) == 2
            and offsets[0] <= offsets[1]
        ):
            return dtype, tuple(shape), offsets[0], offsets[1]
    raise corrupt(file.path, f"has no usable dtype, shape and data_offsets for tensor {name!r}")


def _sizes(value: Any) -> TypeGuard[list[int]]:
    return isinstance(value, list) and all(type(item) is int and item >= 0 for item in value)


def _extent(entry: Entry) -> tuple[int, int]:
    return entry.start, entry.nbytes


def _check_extents(file: MappedFile, entries: Sequence[Entry], start: int) -> None:
    end = start
    for entry in entries:
        if entry.start != end:
            problem = (
                "overlaps the one before it"
                if entry.start < end
                else f"leaves {entry.start - end} bytes unused before it"
            )
            raise corrupt(file.path, f"has tensor {entry.name!r}, which {problem}")
        end += entry.nbytes
    if end != file.size:
        raise corrupt(file.path, f"has {file.size - end} bytes after its last tensor")
