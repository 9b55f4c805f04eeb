"""Tokens per second of the installed backends on the real checkpoints.

    python benchmarks/backends.py [--repeat N] [CHECKPOINT ...]

Backends alternate on the same file; the table shows the median of the repetitions. Prefill is one prompt of 128 tokens;
decode is 32 tokens after it, for one sequence and for a batch of 8.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.table import Table

from modelhost import LLM, SamplingParams

PREFILL, DECODE, BATCH = 128, 32, 8


@dataclass
class Timings:
    """Tokens per second, one entry for each repetition."""

    load_seconds: float
    prefill: list[float] = field(default_factory=list)
    decode: list[float] = field(default_factory=list)
    batch: list[float] = field(default_factory=list)


def fetch(name: str) -> Path:
    script = Path(__file__).parent.parent / "scripts" / "fetch_checkpoint.py"
    result = subprocess.run([sys.executable, str(script), name], check=True, capture_output=True, text=True)
    return Path(result.stdout.strip())


def measure(llm: LLM, timings: Timings) -> None:
    """One repetition of the three measurements."""
    prompt = [10 + index % 1000 for index in range(PREFILL)]
    timings.prefill.append(PREFILL / first_token(llm, prompt))
    for count, rates in ((1, timings.decode), (BATCH, timings.batch)):
        rates.append(count * DECODE / decode_seconds(llm, prompt[:16], count))


def first_token(llm: LLM, prompt: list[int]) -> float:
    started = time.perf_counter()
    llm.generate(prompt, SamplingParams(temperature=0, max_tokens=1, ignore_eos=True))
    return time.perf_counter() - started


def decode_seconds(llm: LLM, prompt: list[int], count: int) -> float:
    """Seconds of the steps after the first."""
    engine = llm.model.engine
    for index in range(count):
        engine.add_request(str(index), prompt, SamplingParams(temperature=0, max_tokens=DECODE + 1, ignore_eos=True))
    engine.step()
    started = time.perf_counter()
    while engine.busy:
        engine.step()
    return time.perf_counter() - started


def load(path: Path, backend: str) -> tuple[LLM, Timings]:
    started = time.perf_counter()
    llm = LLM(str(path), backend=backend, max_model_len=256, max_num_seqs=BATCH, enable_prefix_caching=False)
    llm.generate([1, 2, 3], SamplingParams(max_tokens=2))
    return llm, Timings(time.perf_counter() - started)


def rows(names: list[str], backends: list[str], repeat: int) -> Iterator[tuple[str, str, Timings]]:
    for name in names:
        loaded = {backend: load(fetch(name), backend) for backend in backends}
        for _ in range(repeat):
            for llm, timings in loaded.values():
                measure(llm, timings)
        yield from ((name, backend, timings) for backend, (_, timings) in loaded.items())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoints", nargs="*", default=["smollm2", "gemma3", "qwen2.5-coder"])
    parser.add_argument("--backends", nargs="+", default=["reference", "torch"])
    parser.add_argument("--repeat", type=int, default=3)
    arguments = parser.parse_args()
    table = Table(title=f"tokens per second on {len(os.sched_getaffinity(0))} cores, median of {arguments.repeat}")
    for column in ("checkpoint", "backend", "load (s)", f"prefill {PREFILL}", "decode", f"decode, batch {BATCH}"):
        table.add_column(column, justify="left" if column in ("checkpoint", "backend") else "right")
    for name, backend, timings in rows(arguments.checkpoints, arguments.backends, arguments.repeat):
        medians = (statistics.median(values) for values in (timings.prefill, timings.decode, timings.batch))
        table.add_row(name, backend, f"{timings.load_seconds:.1f}", *(f"{value:.1f}" for value in medians))
    Console().print(table)


if __name__ == "__main__":
    main()
