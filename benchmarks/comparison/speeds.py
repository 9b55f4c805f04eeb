"""Measures all cells on one checkpoint with one number of threads."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from modelhost.bench import Workload

from .cells import Cell, Configuration, configurations
from .ratios import Comparison, fastest, fastest_overall
from .sides import Setup, start_ours, start_peer
from .worker import Worker

_SCREENING_STEPS = 8
"""Most timed steps of a decode when the fastest configuration is sought."""
Times = dict[str, list[float]]


@dataclass(frozen=True)
class Speeds:
    """What was measured.

    Attributes:
        facts: what our worker says about the model.
        version: llama.cpp's.
        comparisons: tokens per second, for each cell.
        chosen: llama.cpp's fastest configuration, for each cell.
        screened: tokens per second of each configuration's fastest screening, for each cell.
        overall: the configuration that is fastest over all cells.
    """

    facts: Mapping[str, Any]
    version: str
    comparisons: dict[Cell, Comparison]
    chosen: dict[Cell, Configuration]
    screened: dict[Cell, dict[str, float]]
    overall: Configuration


class _Session:
    """The workers of both sides."""

    def __init__(self, setup: Setup, model: Path, threads: int, stack: ExitStack) -> None:
        self._setup = setup
        self.ours = stack.enter_context(start_ours(setup, model, threads, sequences=setup.batch).worker)
        self.peers = {
            one.name: stack.enter_context(start_peer(setup, model, threads, one, batch=setup.batch).worker)
            for one in configurations()
        }
        self.facts = self.ours.call("describe")
        described = next(iter(self.peers.values())).call("describe")
        self.version = described["version"]
        self._vocab_size = min(self.facts["vocab_size"], described["vocab_size"])

    def seconds(self, worker: Worker, cell: Cell, steps: int | None = None) -> float:
        """One measurement: of a prompt, or of a step of ``steps`` in place of the setup's number."""
        prompts = Workload().prompts(cell.batch, cell.length, self._vocab_size)
        if cell.phase == "prefill":
            found: float = worker.call("prefill", prompt=prompts[0], repeat=cell.repeat)
        else:
            found = worker.call("decode", prompts=prompts, steps=steps or self._setup.steps)
        return found

    def screen(self, cell: Cell) -> Times:
        """Seconds of each of llama.cpp's configurations, in turn."""
        times: Times = {name: [] for name in self.peers}
        steps = min(self._setup.steps, _SCREENING_STEPS)
        for _ in range(self._setup.screenings):
            for name, worker in self.peers.items():
                times[name].append(self.seconds(worker, cell, steps))
        return times


def compare_speeds(setup: Setup, model: Path, threads: int, say: Callable[[str], None]) -> Speeds:
    """Find llama.cpp's fastest configuration for each cell, then measure that and ours in alternation.

    Raises:
        WorkerError: a side fails.
    """
    by_name = {one.name: one for one in configurations()}
    with ExitStack() as stack:
        say("loading")
        session = _Session(setup, model, threads, stack)
        say("llama.cpp's configurations")
        screened = {cell: session.screen(cell) for cell in setup.cells}
        chosen = {cell: fastest(times) for cell, times in screened.items()}
        for cell in setup.cells:
            session.seconds(session.ours, cell)
        found: dict[Cell, tuple[list[float], list[float]]] = {cell: ([], []) for cell in setup.cells}
        for index in range(setup.alternations):
            say(f"alternation {index + 1} of {setup.alternations}")
            for cell, (ours, peer) in found.items():
                pairs = [(ours, session.ours), (peer, session.peers[chosen[cell]])]
                for values, worker in reversed(pairs) if index % 2 else pairs:
                    values.append(cell.tokens / session.seconds(worker, cell))
    return Speeds(
        session.facts,
        session.version,
        {cell: Comparison(*values, "higher", cell.bar) for cell, values in found.items()},
        {cell: by_name[name] for cell, name in chosen.items()},
        {cell: dict(_rates(cell, times)) for cell, times in screened.items()},
        by_name[fastest_overall(list(screened.values()))],
    )


def _rates(cell: Cell, times: Times) -> Iterator[tuple[str, float]]:
    return ((name, cell.tokens / min(seconds)) for name, seconds in times.items())
