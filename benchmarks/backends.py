"""Tokens per second of the installed backends on the real checkpoints.

    python benchmarks/backends.py [--repeat N] [--backends NAME ...] [CHECKPOINT ...]

Backends alternate on the same file; a number is that of the median repetition. Prefill is one prompt of 128 tokens;
decode is 32 tokens after a short one, for one sequence and for a batch of 8. ``modelhost bench`` measures one backend
more closely.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from modelhost.bench import LoadTime, Measurements, Workload, load_model, measure_once
from modelhost.plugins import boot

PREFILL, CONTEXT, BATCH = 128, 16, 8
COLUMNS = ("checkpoint", "backend", "load (s)", f"prefill {PREFILL}", "decode", f"decode, batch {BATCH}")


def fetch(name: str) -> Path:
    """The file of a checkpoint."""
    script = Path(__file__).parent.parent / "scripts" / "fetch_checkpoint.py"
    result = subprocess.run([sys.executable, str(script), name], check=True, capture_output=True, text=True)
    return Path(result.stdout.strip())


def measure(path: Path, backends: Sequence[str], repeat: int) -> Iterator[tuple[str, LoadTime, Measurements]]:
    """All backends on one checkpoint, in turn."""
    workload = Workload((PREFILL,), (CONTEXT,), (1, BATCH), repetitions=repeat)
    registry = boot()
    loaded = {
        backend: load_model(str(path), workload.engine_config({"backend": backend}), workload, registry)
        for backend in backends
    }
    results = {backend: Measurements.of(workload) for backend in backends}
    for served, _ in loaded.values():
        measure_once(served.engine, workload)
    for _ in range(repeat):
        for backend, (served, _) in loaded.items():
            measure_once(served.engine, workload, results[backend])
    return ((backend, loaded[backend][1], results[backend]) for backend in backends)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoints", nargs="*", default=["smollm2", "gemma3", "qwen2.5-coder"])
    parser.add_argument("--backends", nargs="+", default=["reference", "torch"])
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    table = Table(title=f"tokens per second on {len(os.sched_getaffinity(0))} cores, median of {options.repeat}")
    for column in COLUMNS:
        table.add_column(column, justify="left" if column in COLUMNS[:2] else "right")
    for name in options.checkpoints:
        for backend, load, found in measure(fetch(name), options.backends, options.repeat):
            rates = [one.tokens_per_second for one in found.prefill] + [one.tokens_per_second for one in found.decode]
            table.add_row(name, backend, f"{load.total:.1f}", *(f"{rate:.1f}" for rate in rates))
    Console().print(table)


if __name__ == "__main__":
    main()
