"""Whether the backend can run, found out without loading LLVM."""

from __future__ import annotations

import sys
from importlib.util import find_spec


def probe() -> str | None:
    """``None`` when it can run here, else what to do."""
    if find_spec("llvmlite") is None:
        return "llvmlite is not installed; install it with: pip install llvmlite"
    if sys.maxsize < 2**63 - 1 or sys.byteorder != "little":
        return "it needs a little-endian 64-bit machine"
    if sys.platform == "win32":
        return "its threads need Linux or macOS"
    return None
