"""A checkpoint file mapped into memory, read-only."""

from __future__ import annotations

import mmap
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from modelhost.api import CheckpointError

if TYPE_CHECKING:
    import numpy.typing as npt

_MAPPED_TOGETHER = 2 << 20
"""Bytes around one that is read which Linux may map with it: the largest folio of the page cache."""


def corrupt(path: Path, what: str) -> CheckpointError:
    """The error for a file whose bytes are wrong; ``what`` is the verb phrase, such as ``"is empty"``."""
    return CheckpointError(f"{path} {what}. The file is corrupt or incomplete: download it again.")


@dataclass(frozen=True, slots=True)
class MappedFile:
    """A file's path and its bytes, mapped as long as an array refers to them. The file must not change meanwhile.

    Attributes:
        path: where it was opened.
        data: the mapping, for ``struct``.
        array: the same bytes as read-only ``uint8[size]``.
    """

    path: Path
    data: mmap.mmap
    array: npt.NDArray[np.uint8]

    @property
    def size(self) -> int:
        """Bytes in the file."""
        return self.array.size


def map_file(path: Path) -> MappedFile:
    """Map a regular file.

    Raises:
        CheckpointError: it does not exist, is not a regular file, cannot be read or is empty, or it is a Git LFS
            pointer or a web page.
    """
    if not path.exists():
        raise CheckpointError(f"{path} does not exist. Check the path, or download the file.")
    if not path.is_file():
        raise CheckpointError(f"{path} is not a regular file. Give the path of a checkpoint file.")
    try:
        with path.open("rb") as file:
            if not path.stat().st_size:
                raise corrupt(path, "is empty")
            data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error.strerror}. Check its permissions.") from error
    _refuse_placeholder(path, data[:64])
    return MappedFile(path, data, np.frombuffer(data, np.uint8))


def release_pages(array: npt.NDArray[np.uint8]) -> None:
    """Take the pages under ``array`` out of the process's memory, by madvise(2); a later access reads them again.

    The pages around it go too, as far as the system maps them together with those that are read.

    Only a read-only view of a mapped file has such pages: for any other array nothing is done, nor where the platform
    does not have the call or refuses it, as it does for locked memory.
    """
    mapping = _mapping(array)
    if mapping is None or not array.size or not hasattr(mmap, "MADV_DONTNEED"):
        return
    low, high = np.lib.array_utils.byte_bounds(array)
    base, end = np.lib.array_utils.byte_bounds(np.frombuffer(mapping, np.uint8))
    first = max(0, low - _MAPPED_TOGETHER - base) // mmap.PAGESIZE * mmap.PAGESIZE
    last = min(end, high + _MAPPED_TOGETHER) - base
    with suppress(OSError):
        mapping.madvise(mmap.MADV_DONTNEED, first, last - first)


def _mapping(array: npt.NDArray[np.uint8]) -> mmap.mmap | None:
    """The file mapping that ``array`` is a read-only view of."""
    owner: object = array
    while isinstance(owner, np.ndarray):
        if owner.flags.writeable:
            return None
        owner = owner.base
    if isinstance(owner, memoryview):
        owner = owner.obj
    return owner if isinstance(owner, mmap.mmap) else None


def _refuse_placeholder(path: Path, head: bytes) -> None:
    if head.startswith(b"version https://git-lfs"):
        raise CheckpointError(f'{path} is a Git LFS pointer, not the file itself. Run "git lfs pull" in its directory.')
    if head.lstrip().lower().startswith((b"<!doctype html", b"<html")):
        raise CheckpointError(
            f"{path} is a web page, not a checkpoint. Download the file itself, logged in if it is gated."
        )
