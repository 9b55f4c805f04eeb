"""Which compiled kernels are kept and found again."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import modelhost_cpu
import pytest

_SCRIPT = """
import os, sys, time
from modelhost_cpu.native.compiler import source_digest
if len(sys.argv) > 1:
    os.utime(sys.argv[1], (time.time() + 60, time.time() + 60))
print(source_digest())
"""


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A copy of the package, which can be changed."""
    return Path(shutil.copytree(Path(modelhost_cpu.__file__).parent, tmp_path / "modelhost_cpu"))


def _digest(package: Path, *arguments: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(package.parent)}
    command = [sys.executable, "-c", _SCRIPT, *arguments]
    return subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout.strip()


def test_the_digest_follows_the_source(package: Path) -> None:
    first = _digest(package)
    assert first == _digest(package)
    with (package / "kernels" / "norm.py").open("a") as file:
        file.write("# changed\n")
    assert _digest(package) not in (first, "None")


def test_source_that_changed_after_it_was_imported_has_no_digest(package: Path) -> None:
    """What runs is older than the files: its objects must not be taken for those of the files."""
    assert _digest(package, str(package / "kernels" / "norm.py")) == "None"


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the addresses that mmap chooses are Linux's")
def test_code_reaches_its_constants_in_fragmented_memory() -> None:
    script = Path(__file__).with_name("fragmented_memory.py")
    command = [sys.executable, "-X", "faulthandler", str(script)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout) == (0, "ran 4\n"), done.stderr
