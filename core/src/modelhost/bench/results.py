"""What was measured, and what follows from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import fmean, median
from typing import Any

from .workload import Workload

PERCENTILES = (50, 90, 99)


def percentile(values: Sequence[float], percent: float) -> float:
    """The value that ``percent`` percent of ``values`` do not exceed, interpolated linearly between neighbours.

    Raises:
        ValueError: ``values`` is empty or ``percent`` is outside [0, 100].
    """
    if not values or not 0 <= percent <= 100:
        raise ValueError(f"there is no percentile {percent} of {len(values)} values")
    ordered = sorted(values)
    position = (len(ordered) - 1) * percent / 100
    below = int(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (position - below)


@dataclass(slots=True)
class PrefillTimes:
    """Times to the first token of one prompt length; ``seconds`` has one entry for each repetition."""

    prompt_length: int
    seconds: list[float] = field(default_factory=list)

    @property
    def first_token_seconds(self) -> float:
        """Median time to the first token."""
        return median(self.seconds)

    @property
    def tokens_per_second(self) -> float:
        """Tokens of the prompt for each second of the median time."""
        return self.prompt_length / self.first_token_seconds

    def data(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "prompt_length": self.prompt_length,
            "tokens_per_second": self.tokens_per_second,
            "first_token_seconds": self.first_token_seconds,
            "seconds": self.seconds,
        }


@dataclass(slots=True)
class DecodeTimes:
    """Times of the steps of one context and batch; ``steps`` has a list of seconds for each repetition."""

    context: int
    batch: int
    steps: list[list[float]] = field(default_factory=list)

    @property
    def step_seconds(self) -> float:
        """Median over the repetitions of their mean time of a step."""
        return median(fmean(steps) for steps in self.steps)

    @property
    def tokens_per_second(self) -> float:
        """Tokens of all sequences for each second."""
        return self.batch / self.step_seconds

    def latency(self, percent: float) -> float:
        """A percentile of the seconds between two tokens of a sequence."""
        return percentile([seconds for steps in self.steps for seconds in steps], percent)

    def data(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "context": self.context,
            "batch": self.batch,
            "tokens_per_second": self.tokens_per_second,
            "step_seconds": self.step_seconds,
            "token_latency_seconds": {f"p{percent}": self.latency(percent) for percent in PERCENTILES},
            "steps": self.steps,
        }


@dataclass(slots=True)
class Measurements:
    """All times of a model."""

    prefill: list[PrefillTimes]
    decode: list[DecodeTimes]

    @classmethod
    def of(cls, workload: Workload) -> Measurements:
        """None yet, for everything in ``workload``."""
        return cls(
            [PrefillTimes(length) for length in workload.prompt_lengths],
            [DecodeTimes(context, batch) for context, batch in workload.decodes],
        )

    def data(self) -> dict[str, Any]:
        """As plain data."""
        return {"prefill": [one.data() for one in self.prefill], "decode": [one.data() for one in self.decode]}
