"""Reading a mapped file field by field."""

from __future__ import annotations

import struct

from .mapped_file import MappedFile, corrupt

_U32, _U64 = struct.Struct("<I"), struct.Struct("<Q")


class Cursor:
    """Reads the little-endian fields of a mapped file in turn; every read is checked against the file's size."""

    def __init__(self, file: MappedFile, offset: int = 0) -> None:
        self.file = file
        self.offset = offset

    @property
    def remaining(self) -> int:
        """Bytes up to the end of the file."""
        return self.file.size - self.offset

    def u32(self, what: str) -> int:
        """The next 4 bytes as an unsigned number. ``what`` names the field in the error."""
        return int(_U32.unpack_from(self.file.data, self.skip(4, what))[0])

    def u64(self, what: str) -> int:
        """The next 8 bytes as an unsigned number."""
        return int(_U64.unpack_from(self.file.data, self.skip(8, what))[0])

    def skip(self, size: int, what: str) -> int:
        """Pass over ``size`` bytes and return where they begin.

        Raises:
            CheckpointError: the file ends before them.
        """
        start = self.offset
        if size > self.remaining:
            raise corrupt(
                self.file.path, f"ends inside {what}: it needs {size} bytes at offset {start} of {self.file.size}"
            )
        self.offset += size
        return start

    def string(self, what: str) -> str:
        """The next length-prefixed UTF-8 string."""
        size = self.u64(f"the length of {what}")
        start = self.skip(size, what)
        return self.text(start, size, what)

    def text(self, start: int, size: int, what: str) -> str:
        """``size`` bytes from ``start`` as UTF-8."""
        try:
            return str(self.file.data[start : start + size], "utf-8")
        except UnicodeDecodeError:
            raise corrupt(self.file.path, f"has bytes at offset {start} that are not UTF-8, in {what}") from None

    def count(self, least: int, what: str) -> int:
        """The next 8 bytes as a number of items that take at least ``least`` bytes each.

        Raises:
            CheckpointError: so many cannot be in the rest of the file.
        """
        count = self.u64(f"the number of {what}")
        if count * least > self.remaining:
            raise corrupt(self.file.path, f"states {count} {what}, more than its {self.file.size} bytes can hold")
        return count
