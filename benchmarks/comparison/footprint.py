"""Measures what a process of its own shows: peak memory, time to load, and perplexity."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from modelhost.bench import Workload

from .cells import MEMORY_BAR, PERPLEXITY_BAR, WARM_LOAD_BAR, Configuration, configurations
from .page_cache import evict, read_whole
from .perplexity import WINDOW, perplexity
from .ratios import Comparison
from .sides import Loaded, Setup, start_ours, start_peer
from .worker import Worker

_PROMPT = 512
"""Tokens of the prompt whose processing is in the peak memory."""
_VOCABULARY = 256
"""Token ids below this are in every vocabulary."""


@dataclass
class Footprint:
    """What was measured with llama.cpp in one configuration.

    Attributes:
        memory: peak resident set in bytes, after a prompt of 512 tokens and a decode.
        memory_of: llama.cpp's in each of its configurations.
        warm_load: seconds from loading to the first token, the file in the page cache and our caches filled.
        warm_process: the same from the start of the process.
        cold_load: with the file evicted from the page cache and our caches empty.
        cold_process: the same from the start of the process.
        cold_share: the largest share of the file that could not be evicted.
        perplexity: of the text as a prompt.
        generated_perplexity: of the first windows of the text, computed as generated tokens; ``None`` when left out.
    """

    memory: Comparison
    memory_of: dict[str, float]
    warm_load: Comparison
    warm_process: Comparison
    cold_load: Comparison
    cold_process: Comparison
    cold_share: float
    perplexity: Comparison
    generated_perplexity: Comparison | None


@dataclass
class _Loads:
    """Seconds of both sides: from loading, and from the start of the process."""

    load: tuple[list[float], list[float]] = field(default_factory=lambda: ([], []))
    process: tuple[list[float], list[float]] = field(default_factory=lambda: ([], []))

    def add(self, side: int, loaded: Loaded) -> None:
        self.load[side].append(loaded.seconds)
        self.process[side].append(loaded.process_seconds)

    def comparisons(self, bar: float | None) -> tuple[Comparison, Comparison]:
        return Comparison(*self.load, "lower", bar), Comparison(*self.process, "lower")


def measure_footprint(
    setup: Setup, model: Path, threads: int, configuration: Configuration, say: Callable[[str], None]
) -> Footprint:
    """Start both sides anew for each number, one at a time.

    Raises:
        WorkerError: a side fails.
    """
    with tempfile.TemporaryDirectory() as folder:
        say("cold loads")
        cold, share = _cold_loads(setup, model, threads, configuration, Path(folder))
        say("warm loads")
        warm = _warm_loads(setup, model, threads, configuration, Path(folder, "0"))
    say("memory and perplexity")
    with start_ours(setup, model, threads).worker as worker:
        ours = _memory(worker, setup)
        windows = worker.call("windows", file=str(setup.text), length=WINDOW)[: setup.windows]
        our_perplexity = perplexity(worker, windows)
        first = windows[: setup.generated_windows]
        our_generated = perplexity(worker, first, generated=True) if first else 0.0
    peers = {}
    for one in configurations():
        with start_peer(setup, model, threads, one).worker as worker:
            peers[one.name] = _memory(worker, setup)
            if one == configuration:
                peer_perplexity = perplexity(worker, windows)
                peer_generated = perplexity(worker, first, generated=True) if first else 0.0
    return Footprint(
        Comparison([ours], [peers[configuration.name]], "lower", MEMORY_BAR),
        peers,
        *warm.comparisons(WARM_LOAD_BAR),
        *cold.comparisons(None),
        share,
        Comparison([our_perplexity], [peer_perplexity], "lower", PERPLEXITY_BAR),
        Comparison([our_generated], [peer_generated], "lower", PERPLEXITY_BAR) if first else None,
    )


def _cold_loads(
    setup: Setup, model: Path, threads: int, configuration: Configuration, folder: Path
) -> tuple[_Loads, float]:
    loads, share = _Loads(), 0.0
    for index in range(setup.cold_loads):
        share = max(share, evict(model))
        loads.add(0, _closed(start_ours(setup, model, threads, cache=folder / str(index))))
        share = max(share, evict(model))
        loads.add(1, _closed(start_peer(setup, model, threads, configuration)))
    return loads, share


def _warm_loads(setup: Setup, model: Path, threads: int, configuration: Configuration, cache: Path) -> _Loads:
    loads = _Loads()
    read_whole(model)
    for _ in range(setup.alternations):
        loads.add(0, _closed(start_ours(setup, model, threads, cache=cache)))
        loads.add(1, _closed(start_peer(setup, model, threads, configuration)))
    return loads


def _closed(loaded: Loaded) -> Loaded:
    loaded.worker.close()
    return loaded


def _memory(worker: Worker, setup: Setup) -> float:
    [prompt] = Workload().prompts(1, _PROMPT, _VOCABULARY)
    worker.call("decode", prompts=[prompt], steps=setup.steps)
    peak: float = worker.call("memory")
    return peak
