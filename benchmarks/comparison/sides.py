"""Starts the workers of both sides with the same model, tokens, threads and context."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from .cells import Cell, Configuration
from .worker import Worker

_STEP_TOKENS = 512
"""Tokens of one step of ours: llama.cpp's default of a physical batch."""
_SPARE_TOKENS = 16
LOAD_PROMPT = 32
"""Tokens of the prompt that ends the loading."""


@dataclass(frozen=True)
class Setup:
    """What does not change during a run.

    Attributes:
        llama_cpp: the folder of llama.cpp's library.
        backend: our kernel backend; the best usable one when ``None``.
        dtype: of our activations and KV cache.
        cells: the speeds to measure.
        screenings: measurements of each of llama.cpp's configurations to find the fastest.
        alternations: how often each is measured, one side after the other.
        cold_loads: how often each side is loaded from a file that is not in the page cache.
        steps: timed steps of a decode.
        text: of which the perplexity is computed.
        windows: of that text to use; all when ``None``.
        generated_windows: the same for tokens computed as generated ones; 0 leaves that out.
    """

    llama_cpp: Path
    backend: str | None
    dtype: str
    cells: tuple[Cell, ...]
    screenings: int
    alternations: int
    cold_loads: int
    steps: int
    text: Path
    windows: int | None
    generated_windows: int

    @property
    def batch(self) -> int:
        """The largest batch."""
        return max(cell.batch for cell in self.cells)

    def length(self, *, batched: bool) -> int:
        """Tokens that a sequence needs: any, or one in a batch."""
        lengths = [cell.length for cell in self.cells if cell.batch > 1 or not batched]
        return max(lengths, default=0) + self.steps + _SPARE_TOKENS


@dataclass(frozen=True)
class Loaded:
    """A worker that has its model.

    Attributes:
        seconds: from loading to the first token.
        process_seconds: the same from the start of the process.
    """

    worker: Worker
    seconds: float
    process_seconds: float


def start_ours(setup: Setup, model: Path, threads: int, *, sequences: int = 1, cache: Path | None = None) -> Loaded:
    """A worker with our engine, which shuts down when the model cannot be loaded.

    Args:
        cache: where modelhost keeps what it can make again; the user's own when ``None``.

    Raises:
        WorkerError: the model cannot be loaded.
    """
    environment = {"OMP_NUM_THREADS": str(threads), "OPENBLAS_NUM_THREADS": str(threads)}
    if cache is not None:
        environment["MODELHOST_CACHE"] = str(cache)
    settings = {
        "backend": setup.backend,
        "dtype": setup.dtype,
        "threads": threads,
        "max_model_len": setup.length(batched=False),
        "max_num_seqs": sequences,
        "max_num_batched_tokens": _STEP_TOKENS,
        "enable_prefix_caching": False,
    }
    return _loaded(
        Worker("modelhost_side", environment), {}, {"model": str(model), "settings": settings, "prompt": load_prompt()}
    )


def start_peer(setup: Setup, model: Path, threads: int, configuration: Configuration, *, batch: int = 1) -> Loaded:
    """A worker with llama.cpp, which shuts down when the model cannot be loaded.

    Args:
        batch: sequences of the context for batches; there is none when 1.

    Raises:
        WorkerError: the library or the model cannot be loaded.
    """
    arguments = {
        "model": str(model),
        "repack": configuration.repack,
        "flash_attention": configuration.flash_attention,
        "threads": threads,
        "length": setup.length(batched=False),
        "batch": batch,
        "batch_length": setup.length(batched=True),
        "prompt": load_prompt(),
    }
    return _loaded(Worker("llama_cpp_side"), {"folder": str(setup.llama_cpp)}, arguments)


def _loaded(worker: Worker, preparation: dict[str, object], arguments: dict[str, object]) -> Loaded:
    with ExitStack() as stack:
        stack.enter_context(worker)
        worker.call("prepare", **preparation)
        found = worker.call("load", **arguments)
        stack.pop_all()
    return Loaded(worker, found["seconds"], found["at"] - worker.started)


def load_prompt() -> list[int]:
    """Tokens that every vocabulary has."""
    return list(range(10, 10 + LOAD_PROMPT))
