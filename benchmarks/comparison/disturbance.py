"""How much of the processors other programs used meanwhile."""

from __future__ import annotations

import os
import resource
import time
from pathlib import Path

_IDLE = (3, 4)
"""The places of idle and waiting time among the numbers of the first line of ``/proc/stat``."""


class Disturbance:
    """Counts from its construction on. Child processes count as this program's once they have ended."""

    def __init__(self) -> None:
        self._start = self._now()

    def share(self) -> float | None:
        """The share of the processors' time that other programs, or the host, took; ``None`` where it is not known."""
        now = self._now()
        if now is None or self._start is None:
            return None
        elapsed, busy, own = (after - before for after, before in zip(now, self._start, strict=True))
        return max(0.0, busy - own) / (elapsed * (os.cpu_count() or 1))

    @staticmethod
    def _now() -> tuple[float, float, float] | None:
        """Seconds: of the clock, of all processors together busy, and of them for this program."""
        try:
            line = Path("/proc/stat").read_text(encoding="ascii").splitlines()[0]
        except OSError:
            return None
        ticks = [int(value) for value in line.split()[1:9]]
        busy = sum(ticks) - sum(ticks[place] for place in _IDLE)
        uses = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        own = sum(use.ru_utime + use.ru_stime for use in uses)
        return time.monotonic(), busy / os.sysconf("SC_CLK_TCK"), own
