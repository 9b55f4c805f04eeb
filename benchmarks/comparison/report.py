"""The table and the data of a run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, Literal

from .cells import Cell
from .footprint import Footprint
from .ratios import Comparison
from .speeds import Speeds

Unit = Literal["tokens/s", "s", "MiB", "perplexity"]
_HEADER = ("checkpoint", "threads", "measurement", "modelhost", "llama.cpp", "ratio", "bar", "met", "limit")
_LEFT = 3
"""Columns aligned to the left."""


@dataclass(frozen=True)
class MachineLimit:
    """Bytes that are read and operations that are carried out in a second, at most."""

    read_bytes: float
    operations: float


@dataclass(frozen=True)
class Row:
    """A line of the table.

    Attributes:
        configuration: llama.cpp's.
        limit: tokens per second that the machine's memory or arithmetic allows.
        details: for the data only.
    """

    checkpoint: str
    threads: int
    measurement: str
    unit: Unit
    comparison: Comparison
    configuration: str
    limit: float | None = None
    details: Mapping[str, Any] | None = None

    def data(self) -> dict[str, Any]:
        """As plain data; sizes in bytes."""
        one = self.comparison
        return {
            "checkpoint": self.checkpoint,
            "threads": self.threads,
            "measurement": self.measurement,
            "unit": self.unit,
            "modelhost": list(one.ours),
            "llama.cpp": list(one.peer),
            "ratio": one.ratio,
            "better": one.better,
            "bar": one.bar,
            "met": one.met,
            "configuration": self.configuration,
            "limit": self.limit,
            **(self.details or {}),
        }

    def columns(self) -> tuple[str, ...]:
        """As text, in the order of the header."""
        one = self.comparison
        sign = "≥" if one.better == "higher" else "≤"
        return (
            self.checkpoint,
            str(self.threads),
            self.measurement,
            shown(median(one.ours), self.unit),
            shown(median(one.peer), self.unit),
            f"{one.ratio:.4f}" if self.unit == "perplexity" else f"{one.ratio:.2f}",
            "" if one.bar is None else f"{sign} {one.bar:g}",
            "" if one.met is None else "yes" if one.met else "**no**",
            "" if self.limit is None else shown(self.limit, self.unit),
        )


def shown(value: float, unit: Unit) -> str:
    """A value with as many digits as are worth reading."""
    if unit == "MiB":
        return f"{value / 2**20:.0f}"
    if unit == "tokens/s":
        return f"{value:.0f}" if value >= 100 else f"{value:.1f}"
    return f"{value:.2f}" if unit == "s" else f"{value:.3f}"


def markdown(rows: Sequence[Row]) -> str:
    """The rows as a Markdown table."""
    rule = ["---" if index < _LEFT else "---:" for index in range(len(_HEADER))]
    lines = [_HEADER, rule, *(row.columns() for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def speed_rows(checkpoint: str, threads: int, speeds: Speeds, limit: MachineLimit) -> Iterator[Row]:
    """A row for every cell."""
    for cell, comparison in speeds.comparisons.items():
        yield Row(
            checkpoint,
            threads,
            cell.name,
            "tokens/s",
            comparison,
            speeds.chosen[cell].name,
            highest_speed(cell, speeds.facts, limit),
            {"configurations": speeds.screened[cell]},
        )


def highest_speed(cell: Cell, facts: Mapping[str, Any], limit: MachineLimit) -> float:
    """Tokens per second at the machine's limits.

    A decode step reads the weights as they lie in the file, and the keys and values of every sequence, once. A prefill
    multiplies every weight with every token, and the last one's with the table of logits.
    """
    if cell.phase == "prefill":
        operations = cell.length * facts["flops"] + facts["logit_flops"]
        return float(cell.length * limit.operations / operations)
    cached = sum(size * min(cell.length, window or cell.length) for size, window in facts["kv_cache"])
    read = facts["bytes"] + cell.batch * cached
    return float(cell.batch * limit.read_bytes / read)


def footprint_rows(checkpoint: str, threads: int, footprint: Footprint, configuration: str) -> Iterator[Row]:
    """A row for every number of the footprint."""

    def row(name: str, unit: Unit, comparison: Comparison, **details: Any) -> Row:
        return Row(checkpoint, threads, name, unit, comparison, configuration, None, details)

    cold = {"share_in_page_cache": footprint.cold_share}
    yield row("peak RSS (MiB)", "MiB", footprint.memory, configurations=footprint.memory_of)
    yield row("load to first token, warm (s)", "s", footprint.warm_load)
    yield row("process to first token, warm (s)", "s", footprint.warm_process)
    yield row("load to first token, cold (s)", "s", footprint.cold_load, **cold)
    yield row("process to first token, cold (s)", "s", footprint.cold_process, **cold)
    yield row("perplexity, prompt", "perplexity", footprint.perplexity)
    if footprint.generated_perplexity is not None:
        yield row("perplexity, generated", "perplexity", footprint.generated_perplexity)
