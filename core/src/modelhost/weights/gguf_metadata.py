"""The key-value section of a GGUF file, found in one pass over its lengths and decoded key by key on access.

Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from .cursor import Cursor
from .mapped_file import corrupt

BOOL, STRING, ARRAY = 7, 8, 9
_NUMBERS = {0: "u1", 1: "i1", 2: "u2", 3: "i2", 4: "u4", 5: "i4", 6: "f4", BOOL: "u1", 10: "u8", 11: "i8", 12: "f8"}
_DTYPES = {kind: np.dtype(f"<{name}") for kind, name in _NUMBERS.items()}
_LEAST_BYTES = {STRING: 8, ARRAY: 12}
_DEEPEST_NESTING = 8
_MOST_ITEMS = 1 << 24
_LENGTH = struct.Struct("<Q")


class GGUFMetadata(Mapping[str, Any]):
    """The metadata of a GGUF file. Values are plain Python numbers, strings, booleans and (nested) lists."""

    def __init__(self, cursor: Cursor, count: int) -> None:
        """Find ``count`` entries from ``cursor`` on, and leave it behind the last.

        Raises:
            CheckpointError: an entry is truncated, duplicated or of unknown type.
        """
        self._file = cursor.file
        self._values: dict[str, tuple[int, int]] = {}
        for number in range(count):
            key = cursor.string(f"metadata key {number + 1} of {count}")
            if key in self._values:
                raise corrupt(self._file.path, f"has the metadata key {key!r} twice")
            what = f"metadata key {key!r}"
            kind = cursor.u32(what)
            self._values[key] = kind, cursor.offset
            _skip_value(cursor, kind, what, 0)

    def __getitem__(self, key: str) -> Any:
        kind, offset = self._values[key]
        return _value(Cursor(self._file, offset), kind, f"metadata key {key!r}")

    def __contains__(self, key: object) -> bool:
        return key in self._values

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"<GGUFMetadata of {self._file.path}: {len(self)} keys>"


def _skip_value(cursor: Cursor, kind: int, what: str, depth: int) -> None:
    if kind in _DTYPES:
        cursor.skip(_DTYPES[kind].itemsize, what)
    elif kind == STRING:
        cursor.skip(cursor.u64(what), what)
    elif kind == ARRAY:
        _skip_array(cursor, what, depth + 1)
    else:
        raise corrupt(cursor.file.path, f"has unknown value type {kind} in {what}")


def _skip_array(cursor: Cursor, what: str, depth: int) -> None:
    if depth > _DEEPEST_NESTING:
        raise corrupt(cursor.file.path, f"has arrays nested more than {_DEEPEST_NESTING} deep in {what}")
    kind = cursor.u32(what)
    least = _DTYPES[kind].itemsize if kind in _DTYPES else _LEAST_BYTES.get(kind, 0)
    count = cursor.count(least, f"items in {what}")
    if kind in _DTYPES:
        cursor.skip(count * least, what)
        return
    if kind not in _LEAST_BYTES:
        raise corrupt(cursor.file.path, f"has unknown value type {kind} in {what}")
    if count > _MOST_ITEMS:
        raise corrupt(cursor.file.path, f"states {count} items in {what}, more than {_MOST_ITEMS}")
    if kind == STRING:
        _skip_strings(cursor, count, what)
    else:
        for _ in range(count):
            _skip_array(cursor, what, depth + 1)


def _skip_strings(cursor: Cursor, count: int, what: str) -> None:
    data, offset, length_at = cursor.file.data, cursor.offset, _LENGTH.unpack_from
    try:
        for _ in range(count):
            offset += 8 + length_at(data, offset)[0]
    except (struct.error, OverflowError):
        offset = cursor.file.size + 1
    cursor.skip(offset - cursor.offset, what)


def _value(cursor: Cursor, kind: int, what: str) -> Any:
    if kind == STRING:
        return cursor.string(what)
    if kind == ARRAY:
        return _array(cursor, what)
    return _numbers(cursor, kind, 1, what)[0]


def _array(cursor: Cursor, what: str) -> list[Any]:
    kind, count = cursor.u32(what), cursor.u64(what)
    if kind == STRING:
        return _strings(cursor, count, what)
    if kind == ARRAY:
        return [_array(cursor, what) for _ in range(count)]
    return _numbers(cursor, kind, count, what)


def _numbers(cursor: Cursor, kind: int, count: int, what: str) -> list[Any]:
    dtype = _DTYPES[kind]
    values = np.frombuffer(cursor.file.data, dtype, count, cursor.skip(count * dtype.itemsize, what))
    if kind == BOOL:
        if count and values.max() > 1:
            raise corrupt(cursor.file.path, f"has a boolean other than 0 and 1 in {what}")
        values = values.astype(bool)
    items: list[Any] = values.tolist()
    return items


def _strings(cursor: Cursor, count: int, what: str) -> list[str]:
    data, offset, length_at = cursor.file.data, cursor.offset, _LENGTH.unpack_from
    strings = []
    try:
        for _ in range(count):
            start = offset + 8
            offset = start + length_at(data, offset)[0]
            strings.append(str(data[start:offset], "utf-8"))
    except UnicodeDecodeError:
        raise corrupt(cursor.file.path, f"has bytes that are not UTF-8 in item {len(strings)} of {what}") from None
    cursor.offset = offset
    return strings
