"""What is compared, and what each ratio has to reach."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Literal

Phase = Literal["prefill", "decode"]


@dataclass(frozen=True)
class Cell:
    """A speed to measure.

    Attributes:
        phase: processing a prompt, or the steps after it.
        length: tokens of the prompt, or of the context before the first timed token.
        batch: sequences that decode together.
        bar: least ratio of our tokens per second to llama.cpp's; ``None`` for a number that is only shown.
    """

    phase: Phase
    length: int
    batch: int = 1
    bar: float | None = None

    @property
    def name(self) -> str:
        """What the table calls it."""
        if self.phase == "prefill":
            return f"prefill {self.length} (tokens/s)"
        batch = f", batch {self.batch}" if self.batch > 1 else ""
        return f"decode at {self.length}{batch} (tokens/s)"

    @property
    def tokens(self) -> int:
        """Tokens for each timed unit: the prompt's, or one for each sequence."""
        return self.length if self.phase == "prefill" else self.batch

    @property
    def repeat(self) -> int:
        """Measurements of one alternation: more of what is short."""
        return max(1, 128 // self.length)


FULL = (
    Cell("prefill", 32),
    Cell("prefill", 128),
    Cell("prefill", 512, bar=2.0),
    Cell("decode", 64, bar=1.3),
    Cell("decode", 512, bar=1.3),
    Cell("decode", 1024),
    Cell("decode", 64, batch=8, bar=2.0),
)
QUICK = (
    Cell("prefill", 512, bar=2.0),
    Cell("decode", 64, bar=1.3),
    Cell("decode", 64, batch=8, bar=2.0),
)
MEMORY_BAR = 0.95
"""Most of llama.cpp's peak resident set."""
WARM_LOAD_BAR = 1.2
"""Most of llama.cpp's time from loading to the first token, with the file in the page cache."""
PERPLEXITY_BAR = 1.005
"""Most of llama.cpp's perplexity."""


@dataclass(frozen=True)
class Configuration:
    """How llama.cpp runs: with its own layouts of weights or not, with flash attention or not."""

    repack: bool
    flash_attention: bool

    @property
    def name(self) -> str:
        """What tables call it."""
        return f"repack {'on' if self.repack else 'off'}, flash attention {'on' if self.flash_attention else 'off'}"


def configurations() -> Iterator[Configuration]:
    """All four; llama.cpp's default comes first."""
    return (Configuration(*switches) for switches in product((True, False), repeat=2))
