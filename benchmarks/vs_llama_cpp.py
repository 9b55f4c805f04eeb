"""modelhost against llama.cpp on real checkpoints, on the processor.

    benchmarks/build_llama_cpp.sh FOLDER
    python benchmarks/vs_llama_cpp.py --llama-cpp FOLDER/build/bin [--backend NAME] [--json FILE] [--quick] [NAME ...]

Prints a Markdown table. How the numbers come about:

- Both sides get the same file, tokens, number of threads and length of context, and process at most 512 tokens at a
  time. llama.cpp keeps keys and values in float16; ours are in ``--dtype``; the bytes of a token are in the JSON.
- Each side has processes of its own, which answer when their threads are at rest. The sides alternate, and who is first
  alternates too. A ratio is the median of the ratios of the alternations.
- Ours is timed through the engine: scheduling, sampling and detokenisation are in it. llama.cpp is timed as llama-bench
  does: ``llama_decode`` alone.
- llama.cpp runs in four configurations: its repacking of weights on or off, flash attention on or off. A speed is
  compared with the configuration that is fastest for it. Memory, loading and perplexity are compared with the one that
  is fastest over all speeds.
- A decode is the median step after a context is filled.
- Peak RSS is VmHWM after a prompt of 512 tokens and a decode, with room for one sequence. Ours is that of the whole
  process. From llama.cpp's the Python interpreter that drives it is taken off.
- Loading is timed from when the engine's modules or llama.cpp's library have been imported, to the first token after
  a prompt of 32. The rows "process" are timed from the start of the process. Cold is with our caches empty and the file
  evicted from the page cache by posix_fadvise; the JSON has the share that stayed. Warm is with both filled.
- Perplexity is over the same tokens of perplexity.txt, in windows of 512. The row "generated" computes the first
  windows with the kernels of generated tokens; llama.cpp gets one token at a time for it.
- The limit of a speed is what the machine's read bandwidth, over as many bytes as the file has (decode), or its
  arithmetic (prefill) allows, see machine_limits.py.
- The processors' time that other programs took meanwhile is above the table. With more than a tenth of it no number
  can be relied on, and the line says so.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from comparison.cells import FULL, QUICK
from comparison.disturbance import Disturbance
from comparison.footprint import measure_footprint
from comparison.report import MachineLimit, Row, footprint_rows, markdown, speed_rows
from comparison.sides import Setup
from comparison.speeds import compare_speeds
from comparison.worker import WorkerError
from machine_limits import LARGE, limits

HERE = Path(__file__).parent
QUIET = 0.1
"""Most of the processors' time that other programs may take."""
CHECKPOINTS = ("smollm2", "gemma3", "qwen2.5-coder")


def options(arguments: list[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoints", nargs="*", metavar="NAME", help="of scripts/fetch_checkpoint.py, or a file")
    parser.add_argument("--llama-cpp", type=Path, required=True, metavar="FOLDER", help="that holds libllama")
    parser.add_argument("--backend", help="ours; the best usable one")
    parser.add_argument("--dtype", default="auto", choices=("auto", "float32", "bfloat16", "float16"))
    parser.add_argument("--threads", type=int, nargs="+", help="one run for each; all processors, and 1")
    parser.add_argument("--alternations", type=int, help="5, or 3 with --quick")
    parser.add_argument("--steps", type=int, default=32, help="timed steps of a decode")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all values there")
    parser.add_argument("--quick", action="store_true", help="one checkpoint, all processors, three speeds")
    found = parser.parse_args(arguments)
    found.checkpoints = found.checkpoints or list(CHECKPOINTS[:1] if found.quick else CHECKPOINTS)
    processors = len(os.sched_getaffinity(0))
    found.threads = found.threads or ([processors] if found.quick else sorted({processors, 1}, reverse=True))
    found.alternations = found.alternations or (3 if found.quick else 5)
    return found


def setup_of(found: argparse.Namespace) -> Setup:
    """What the options ask for."""
    return Setup(
        llama_cpp=found.llama_cpp,
        backend=found.backend,
        dtype=found.dtype,
        cells=QUICK if found.quick else FULL,
        screenings=1 if found.quick else 2,
        alternations=found.alternations,
        cold_loads=1 if found.quick else 3,
        steps=found.steps,
        text=HERE / "perplexity.txt",
        windows=2 if found.quick else None,
        generated_windows=0 if found.quick else 2,
    )


def checkpoint(name: str) -> Path:
    """The file called ``name``, or of the checkpoint of that name. Exits when there is neither."""
    sys.path.insert(0, str(HERE.parent / "scripts"))
    from fetch_checkpoint import SOURCES, fetch

    if name not in SOURCES and not Path(name).is_file():
        sys.exit(f"error: {name!r} is no file and none of the checkpoints {', '.join(SOURCES)}")
    return fetch(name) if name in SOURCES else Path(name)


def run(found: argparse.Namespace, say: Callable[..., None]) -> tuple[list[Row], dict[str, Any]]:
    """Measure everything.

    Returns:
        the rows, and facts about machine and sides.
    """
    setup, disturbance = setup_of(found), Disturbance()
    rows: list[Row] = []
    say("limits of the machine")
    files = {name: checkpoint(name) for name in found.checkpoints}
    sizes = [LARGE, *sorted({megabytes(file) for file in files.values()})]
    machine = {threads: limits(threads, sizes) for threads in found.threads}
    facts: dict[str, Any] = {"machine": processor(), "limits": list(machine.values()), "modelhost": {}}
    for name, model in files.items():
        for index, threads in enumerate(found.threads):
            say_here = partial(say, f"{name}, {threads} threads")
            speeds = compare_speeds(setup, model, threads, say_here)
            rows.extend(speed_rows(name, threads, speeds, limit_of(machine[threads], model)))
            facts["modelhost"][name], facts["llama.cpp"] = dict(speeds.facts), speeds.version
            if index == 0:
                best = speeds.overall
                footprint = measure_footprint(setup, model, threads, best, say_here)
                rows.extend(footprint_rows(name, threads, footprint, best.name))
    return rows, {**facts, "taken_by_others": disturbance.share()}


def megabytes(file: Path) -> int:
    """The size of a file, rounded up."""
    return -(-file.stat().st_size // 2**20)


def limit_of(machine: Mapping[str, Any], file: Path) -> MachineLimit:
    """What the machine can do with as many bytes as ``file`` has."""
    read = machine["read_bytes_per_second"][str(megabytes(file))]["best"]
    return MachineLimit(read, machine["operations_per_second"]["best"])


def processor() -> str:
    """The processor's name and how many are used."""
    name = platform.processor() or platform.machine()
    for line in _cpuinfo():
        if line.startswith("model name"):
            name = line.partition(":")[2].strip()
    return f"{len(os.sched_getaffinity(0))} x {name}"


def _cpuinfo() -> Iterator[str]:
    path = Path("/proc/cpuinfo")
    return iter(path.read_text().splitlines() if path.exists() else ())


def heading(facts: dict[str, Any]) -> str:
    """What is above the table."""
    side = next(iter(facts["modelhost"].values()))
    reads = ", ".join(
        f"{one['threads']} threads read {one['read_bytes_per_second'][str(LARGE)]['best'] / 1e9:.1f} GB/s and compute "
        f"{one['operations_per_second']['best'] / 1e12:.2f} TFLOP/s"
        for one in facts["limits"]
    )
    return (
        f"modelhost (backend {side['backend']}, {side['dtype']}) and llama.cpp {facts['llama.cpp']} on "
        f"{facts['machine']}: {reads}. {_others(facts['taken_by_others'])}\n"
    )


def _others(share: float | None) -> str:
    if share is None:
        return ""
    text = f"Other programs took {share:.0%} of the processors' time."
    return text if share <= QUIET else f"{text} **That is too much: neither speeds nor ratios can be relied on.**"


def main() -> None:
    found = options()
    began = time.monotonic()

    def say(*texts: str) -> None:
        print(f"[{time.monotonic() - began:5.0f} s] {': '.join(texts)}", file=sys.stderr, flush=True)

    try:
        rows, facts = run(found, say)
    except WorkerError as error:
        sys.exit(f"error: {error}")
    print(heading(facts))
    print(markdown(rows))
    if found.json:
        found.json.write_text(json.dumps({**facts, "rows": [row.data() for row in rows]}, indent=2) + "\n")


if __name__ == "__main__":
    main()
