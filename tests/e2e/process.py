"""What this process takes of the machine. Linux tells under /proc."""

from __future__ import annotations

import ctypes
import gc
import os
from pathlib import Path


def resident_bytes() -> int:
    """Memory that is in use: garbage is collected and what was freed is given back to the system before."""
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
    status = Path("/proc/self/status").read_text()
    anonymous = next(line for line in status.splitlines() if line.startswith("RssAnon:"))
    return int(anonymous.split()[1]) * 1024


def thread_count() -> int:
    """Threads of this process, native ones too."""
    return len(os.listdir("/proc/self/task"))
