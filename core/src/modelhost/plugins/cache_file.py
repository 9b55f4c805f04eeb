"""A file of plain data that is safe to read and write whatever happened to it and whoever else uses it."""

from __future__ import annotations

import json
import os
import stat
import zlib
from contextlib import suppress
from pathlib import Path
from typing import Any

_MAGIC = "modelhost-cache"


def read_cache_file(file: Path) -> Any:
    """The data in ``file``; ``None`` when there is none.

    Raises:
        ValueError: the file is damaged, or is not such a file, or others than this user can write to it.
        OSError: it cannot be read.
    """
    try:
        descriptor = os.open(file, os.O_RDONLY)
    except FileNotFoundError:
        return None
    with open(descriptor, encoding="utf-8") as stream:
        _check_owner(os.fstat(stream.fileno()))
        head, _, body = stream.read().partition("\n")
    if head != _head(body):
        raise ValueError("it is damaged")
    return json.loads(body)


def write_cache_file(file: Path, data: Any) -> None:
    """Put ``data`` in the place of what ``file`` holds. Other processes see the old file or the new one, whole.

    Raises:
        OSError: the directory or the file cannot be written.
    """
    body = json.dumps(data, separators=(",", ":"))
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    temporary = file.with_name(f".{file.name}.{os.getpid()}.{os.urandom(4).hex()}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with open(descriptor, "w", encoding="utf-8") as stream:
            stream.write(f"{_head(body)}\n{body}")
        os.replace(temporary, file)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise


def _head(body: str) -> str:
    return f"{_MAGIC} {zlib.crc32(body.encode()):08x}"


def _check_owner(found: os.stat_result) -> None:
    """What is in the file decides what is imported: it must be the user's own."""
    if not stat.S_ISREG(found.st_mode):
        raise ValueError("it is not a regular file")
    if hasattr(os, "getuid") and (found.st_uid != os.getuid() or found.st_mode & 0o022):
        raise ValueError("it belongs to another user or others can write to it")
