"""The most memory that this process has had."""

from __future__ import annotations

import sys


def peak_memory() -> int | None:
    """Bytes of the largest resident set of this process so far; ``None`` where the system does not tell.

    On Linux this is ``VmHWM``, which unlike ``ru_maxrss`` does not include what the parent had before ``exec``.
    """
    try:
        with open("/proc/self/status", encoding="ascii") as file:
            for line in file:
                if line.startswith("VmHWM:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    try:
        import resource
    except ImportError:
        return None
    largest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return largest if sys.platform == "darwin" else largest * 1024
