"""Numbers from alternating measurements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import exp, log
from statistics import fmean, median
from typing import Literal

Better = Literal["higher", "lower"]


@dataclass(frozen=True)
class Comparison:
    """One number of both sides.

    Attributes:
        ours: one value for each alternation.
        peer: llama.cpp's, measured in the same alternations.
        better: whether higher or lower values are.
        bar: the least or, where lower is better, the greatest ratio that is good enough.
    """

    ours: Sequence[float]
    peer: Sequence[float]
    better: Better
    bar: float | None = None

    @property
    def ratio(self) -> float:
        """Median of the ratios ours / llama.cpp of each alternation, so that what disturbs both cancels out."""
        return median(ours / peer for ours, peer in zip(self.ours, self.peer, strict=True))

    @property
    def met(self) -> bool | None:
        """Whether the ratio reaches the bar; ``None`` without one."""
        if self.bar is None:
            return None
        return self.ratio >= self.bar if self.better == "higher" else self.ratio <= self.bar


def fastest(seconds: Mapping[str, Sequence[float]]) -> str:
    """The name with the least of all times.

    Raises:
        ValueError: there is none.
    """
    return min(seconds, key=lambda name: min(seconds[name]))


def fastest_overall(seconds: Sequence[Mapping[str, Sequence[float]]]) -> str:
    """The name whose least times have the least geometric mean over all measurements.

    Raises:
        ValueError: there is no measurement.
    """
    if not seconds:
        raise ValueError("there is no measurement to choose by")
    return min(seconds[0], key=lambda name: exp(fmean(log(min(one[name])) for one in seconds)))
