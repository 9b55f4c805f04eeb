"""The system's cache of file contents."""

from __future__ import annotations

import ctypes
import mmap
import os
from pathlib import Path

import numpy as np


def evict(path: Path) -> float:
    """Ask the system to drop a file from its page cache, which it does for pages that no process has mapped.

    Returns:
        the share of the file that is in the cache nonetheless, in [0, 1].
    """
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(descriptor)
    return resident_share(path)


def read_whole(path: Path) -> None:
    """Bring a file into the page cache."""
    with path.open("rb", buffering=0) as file:
        while file.read(1 << 24):
            pass


def resident_share(path: Path) -> float:
    """The share of a file that is in the page cache, in [0, 1].

    Raises:
        OSError: the system does not tell.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as mapped:
        view = np.frombuffer(mapped, np.uint8)
        pages = np.zeros(-(-len(view) // mmap.PAGESIZE), np.uint8)
        addresses = [ctypes.c_void_p(array.ctypes.data) for array in (view, pages)]
        code = libc.mincore(addresses[0], ctypes.c_size_t(len(view)), addresses[1])
        error = ctypes.get_errno()
        del view
    if code:
        raise OSError(error, f"mincore of {path}: {os.strerror(error)}")
    return float((pages & 1).mean())
