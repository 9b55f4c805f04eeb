"""One GGUF file, version 2 or 3: its header, metadata and tensor table.

Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from operator import attrgetter
from pathlib import Path

from modelhost.api import Encoding, UnsupportedError

from .cursor import Cursor
from .encoding_table import EncodingTable
from .entry import Entry, encoded_nbytes, shape_problem
from .gguf_metadata import GGUFMetadata
from .mapped_file import MappedFile, corrupt, map_file

_VERSIONS = (2, 3)
_MOST_DIMENSIONS = 4
_LEAST_KEY_BYTES = 8 + 4 + 1
_LEAST_TENSOR_BYTES = 8 + 4 + 4 + 8
_DEFAULT_ALIGNMENT = 32


@dataclass(frozen=True, slots=True)
class GGUFFile:
    """The parsed header of one file.

    Attributes:
        path: the file.
        metadata: its key-value section.
        entries: its tensors, in the order of the table.
    """

    path: Path
    metadata: GGUFMetadata
    entries: tuple[Entry, ...]


def read_gguf_file(path: Path, encodings: EncodingTable) -> GGUFFile:
    """Map a file and check its header, metadata and tensor table against its size. No tensor data is touched.

    Raises:
        CheckpointError: the file is missing, truncated or corrupt.
        UnsupportedError: it is big-endian or of another version.
    """
    file = map_file(path)
    cursor = Cursor(file)
    _check_magic(file)
    cursor.skip(4, "the header")
    _check_version(file, cursor.u32("the header"))
    tensors = cursor.count(_LEAST_TENSOR_BYTES, "tensors")
    keys = cursor.count(_LEAST_KEY_BYTES, "metadata keys")
    metadata = GGUFMetadata(cursor, keys)
    alignment = _alignment(file, metadata)
    table = [_table_row(cursor, number, tensors) for number in range(1, tensors + 1)]
    start = -(-cursor.offset // alignment) * alignment
    entries = tuple(_entry(file, row, start, alignment, encodings) for row in table)
    _check_unique(file, entries)
    _check_extents(file, entries)
    return GGUFFile(path, metadata, entries)


@dataclass(frozen=True, slots=True)
class _Row:
    name: str
    shape: tuple[int, ...]
    type: int
    offset: int


def _check_magic(file: MappedFile) -> None:
    magic = file.data[:4]
    if magic != b"GGUF":
        raise corrupt(file.path, f'starts with {magic!r} instead of b"GGUF"')


def _check_version(file: MappedFile, version: int) -> None:
    if version in _VERSIONS:
        return
    if version and not version & 0xFFFF:
        raise UnsupportedError(f"{file.path} is a big-endian GGUF file. Use the little-endian file of the same model.")
    raise UnsupportedError(
        f"{file.path} is a GGUF file of version {version}; versions 2 and 3 are read. "
        "Convert the model again with a current llama.cpp."
    )


def _alignment(file: MappedFile, metadata: GGUFMetadata) -> int:
    alignment = metadata.get("general.alignment", _DEFAULT_ALIGNMENT)
    if type(alignment) is not int or alignment < 1 or alignment & (alignment - 1):
        raise corrupt(file.path, f"states general.alignment {alignment!r}, not a power of two")
    return alignment


def _table_row(cursor: Cursor, number: int, total: int) -> _Row:
    name = cursor.string(f"the name of tensor {number} of {total}")
    what = f"tensor {name!r}"
    rank = cursor.u32(what)
    if rank > _MOST_DIMENSIONS:
        raise corrupt(cursor.file.path, f"has {rank} dimensions in {what}, more than {_MOST_DIMENSIONS}")
    shape = tuple(cursor.u64(what) for _ in range(rank))[::-1]
    return _Row(name, shape, cursor.u32(what), cursor.u64(what))


def _entry(file: MappedFile, row: _Row, start: int, alignment: int, encodings: EncodingTable) -> Entry:
    encoding = encodings.find_gguf_type(row.type)
    problem = shape_problem(row.shape, encoding)
    if problem:
        raise corrupt(file.path, f"has tensor {row.name!r}, which {problem}")
    if row.offset % alignment:
        raise corrupt(
            file.path, f"has tensor {row.name!r} at offset {row.offset}, not a multiple of the alignment {alignment}"
        )
    begin = start + row.offset
    nbytes = _checked_nbytes(file, row, encoding, begin)
    return Entry(row.name, row.shape, row.type, encoding, file, begin, nbytes)


def _checked_nbytes(file: MappedFile, row: _Row, encoding: Encoding | None, begin: int) -> int:
    nbytes = encoded_nbytes(encoding, row.shape) if encoding else 0
    if begin + nbytes > file.size:
        raise corrupt(file.path, f"has {file.size} bytes, but tensor {row.name!r} ends at byte {begin + nbytes}")
    return nbytes


def _check_unique(file: MappedFile, entries: Iterable[Entry]) -> None:
    seen = set()
    for entry in entries:
        if entry.name in seen:
            raise corrupt(file.path, f"has the tensor {entry.name!r} twice")
        seen.add(entry.name)


def _check_extents(file: MappedFile, entries: Iterable[Entry]) -> None:
    placed = sorted((entry for entry in entries if entry.nbytes), key=attrgetter("start"))
    for before, after in pairwise(placed):
        if before.start + before.nbytes > after.start:
            raise corrupt(file.path, f"has tensors {before.name!r} and {after.name!r} in the same bytes")
