"""Wheels written by hand, for pip to install. Nothing needs to be built."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from zipfile import ZipFile


def write_wheel(
    folder: Path,
    name: str,
    version: str = "1.0",
    *,
    modules: Mapping[str, str] | None = None,
    entry_points: Mapping[str, str] | None = None,
    requires: Sequence[str] = ("modelhost>=0.1,<0.2",),
    requires_python: str = ">=3.11",
    tag: str = "py3-none-any",
) -> Path:
    """A wheel with these modules (path -> source), entry points of the group ``modelhost`` and metadata."""
    folder.mkdir(parents=True, exist_ok=True)
    stem = f"{name.replace('-', '_')}-{version}"
    metadata = [f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\nRequires-Python: {requires_python}"]
    metadata += [f"Requires-Dist: {requirement}" for requirement in requires]
    points = "".join(f"{key} = {value}\n" for key, value in (entry_points or {}).items())
    files = {
        **(modules or {}),
        f"{stem}.dist-info/METADATA": "\n".join([*metadata, ""]),
        f"{stem}.dist-info/WHEEL": f"Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: {tag}\n",
        f"{stem}.dist-info/entry_points.txt": f"[modelhost]\n{points}" if points else "",
    }
    record = f"{stem}.dist-info/RECORD"
    files[record] = "".join(_record_line(path, text) for path, text in files.items()) + f"{record},,\n"
    file = folder / f"{stem}-{tag}.whl"
    with ZipFile(file, "w") as archive:
        for path, text in files.items():
            archive.writestr(path, text)
    return file


def _record_line(path: str, text: str) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
    return f"{path},sha256={digest},{len(text.encode())}\n"
