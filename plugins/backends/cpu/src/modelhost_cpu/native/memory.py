"""Memory that kernels work in."""

from __future__ import annotations

import mmap
from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    Bytes = npt.NDArray[np.uint8]

_ALIGNMENT = 64
_HUGE_PAGE = 2 << 20
_REGION = 64 << 20
_LARGE = _REGION // 4


def aligned_bytes(count: int, alignment: int = _ALIGNMENT) -> Bytes:
    """``count`` bytes of zeros at a multiple of ``alignment``; pages are taken when they are first touched."""
    raw = np.zeros(count + alignment, np.uint8)
    start = -raw.ctypes.data % alignment
    return raw[start : start + count]


def huge_pages(count: int) -> Bytes:
    """``count`` bytes of zeros in pages of 2 MiB where the system has them.

    Reading all of it then misses the processor's table of pages far less often.

    Raises:
        MemoryError: the system has no such address space.
    """
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    try:
        mapping = mmap.mmap(-1, count + _HUGE_PAGE, flags=flags)
    except OSError as error:
        raise MemoryError(f"the system does not give {count} bytes: {error.strerror}") from error
    if hasattr(mmap, "MADV_HUGEPAGE"):
        with suppress(OSError):
            mapping.madvise(mmap.MADV_HUGEPAGE)
    raw = np.frombuffer(mapping, np.uint8)
    start = -raw.ctypes.data % _HUGE_PAGE
    return raw[start : start + count]


class HugePageAllocator:
    """Places arrays one behind the other in huge pages. A region is freed when none of its arrays is left."""

    def __init__(self) -> None:
        self._free = aligned_bytes(0)

    def take(self, count: int) -> Bytes:
        """``count`` bytes of zeros at a multiple of 64."""
        size = -(-count // _ALIGNMENT) * _ALIGNMENT
        if size >= _LARGE:
            return huge_pages(size)[:count]
        if size > self._free.nbytes:
            self._free = huge_pages(_REGION)
        taken, self._free = self._free[:count], self._free[size:]
        return taken
