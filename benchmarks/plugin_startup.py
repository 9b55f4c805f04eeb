"""What installed plugins cost at start-up: with 0, 1, 10, 30 and 50 of them, cold and from the cache of declarations.

    python benchmarks/plugin_startup.py [--repeat N]

Each number is the least of several processes, in milliseconds of processor time. *boot* is the call of
``modelhost.plugins.boot()``; *process* is a whole process that imports modelhost.plugins and boots. The plugins are
real distributions with two records each, in a directory of their own.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

COUNTS = (0, 1, 10, 30, 50)
CHILD = """
import json, sys, time
from pathlib import Path
started = time.process_time()
from modelhost.plugins import HostSettings, boot
settings = HostSettings(cache=Path(sys.argv[2]) if sys.argv[2] else None)
imported = time.process_time()
registry = boot(settings=settings, path=[sys.argv[1]])
booted = time.process_time()
states = [plugin.state for plugin in registry.plugins]
used = registry.cache.used if registry.cache else 0
print(json.dumps({"boot": (booted - imported) * 1000, "states": states, "used": used}))
"""
DECLARES = """
from modelhost.api import Architecture, ToolParser, hookimpl

API = (1, 0)


@hookimpl
def modelhost_architectures():
    yield Architecture("Dummy{number}ForCausalLM", target="modelhost_dummy{number}.model:Model", gguf="dummy{number}")


@hookimpl
def modelhost_tool_parsers():
    yield ToolParser("dummy{number}", target="modelhost_dummy{number}.parser:Parser")
"""


def install(site: Path, distribution: str, entry_point: str, module: str) -> None:
    """What pip leaves behind of a distribution, but for its modules."""
    info = site / f"{distribution.replace('-', '_')}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.0\n\n" + "Text.\n" * 100)
    (info / "entry_points.txt").write_text(f"[modelhost]\n{entry_point} = {module}\n")
    (info / "RECORD").write_text("")


def make_site(site: Path, count: int) -> None:
    """modelhost and ``count`` plugins, with files old enough to be cached."""
    install(site, "modelhost", "core", "modelhost.builtin")
    for number in range(count):
        package = site / f"modelhost_dummy{number}"
        package.mkdir()
        (package / "__init__.py").touch()
        (package / "plugin.py").write_text(DECLARES.format(number=number))
        install(site, f"modelhost-dummy{number}", f"dummy{number}", f"modelhost_dummy{number}.plugin")
    an_hour_ago = time.time() - 3600
    for file in site.rglob("*"):
        os.utime(file, (an_hour_ago, an_hour_ago))


def start(site: Path, cache: Path | None) -> tuple[float, float, int]:
    """Milliseconds of the boot and of the whole process, and the number of plugins that came from the cache."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(site), *filter(None, sys.path)])}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-c", CHILD, str(site), str(cache or "")]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    answer = json.loads(done.stdout)
    assert set(answer["states"]) == {"ok"}, answer
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return answer["boot"], spent * 1000, answer["used"]


def measure(count: int, repeat: int) -> tuple[float, ...]:
    """Boot and process, cold and cached."""
    with tempfile.TemporaryDirectory() as folder:
        site, cache = Path(folder, "site"), Path(folder, "cache")
        make_site(site, count)
        start(site, None)  # writes byte code
        cold = [start(site, None) for _ in range(repeat)]
        start(site, cache)
        cached = [start(site, cache) for _ in range(repeat)]
    assert {used for _, _, used in cached} == {count + 1}
    return tuple(min(values[column] for values in runs) for column in (0, 1) for runs in (cold, cached))


def main() -> None:
    parser = argparse.ArgumentParser(description="Start-up times with dummy plugins.")
    parser.add_argument("--repeat", type=int, default=7, help="processes for each number")
    repeat = parser.parse_args().repeat
    print("| plugins | boot, cold | boot, cached | process, cold | process, cached |")
    print("|---:|---:|---:|---:|---:|")
    for count in COUNTS:
        cells = " | ".join(f"{value:.0f} ms" if value >= 10 else f"{value:.1f} ms" for value in measure(count, repeat))
        print(f"| {count} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
