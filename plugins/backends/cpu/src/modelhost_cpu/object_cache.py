"""Compiled objects on disk. Loading one runs its code, so only files that are whole and the user's own are believed."""

from __future__ import annotations

import hashlib
import logging
import os
import re
import stat
import struct
import time
import warnings
from contextlib import suppress
from pathlib import Path

from modelhost.api.system import cache_directory

from .machine import Target

_LOG = logging.getLogger(__name__)
_MAGIC = b"modelhost object"
_FORMAT = 1
_HEADER = struct.Struct("<16sI32sQ32s")
_SUFFIX = ".object"
_TEMPORARY = ".temporary"
_ABANDONED_AFTER = 3600  # seconds
_READ_FLAGS = os.O_RDONLY | sum(getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_BINARY"))
_WRITE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)


def object_key(target: Target, *parts: str | bytes) -> str:
    """The key of an object: the SHA-256, in hexadecimal, of all that determines it.

    The target and the versions of llvmlite and LLVM are part of it. ``parts`` is the rest: the IR, or what it is made
    from, and how it is optimised. ``("ab", "c")`` and ``("a", "bc")`` are different.
    """
    import llvmlite
    from llvmlite import binding

    versions = (str(llvmlite.__version__), ".".join(map(str, binding.llvm_version_info)))
    digest = hashlib.sha256()
    for part in (*versions, target.triple, target.cpu, target.feature_string, *parts):
        data = part.encode() if isinstance(part, str) else part
        digest.update(struct.pack("<Q", len(data)))
        digest.update(data)
    return digest.hexdigest()


class ObjectCache:
    """Objects by key, in one directory that processes share. No trouble with the disk ever fails a run.

    A file is a header (magic, format version, key, length and SHA-256 of the object) and the object. One that does
    not verify, that is not a regular file of this user, or that others can write to, counts as absent; the next
    :meth:`put` replaces it. A file appears whole or not at all, so writers and readers need no lock.

    Args:
        directory: where the files are; ``modelhost-cpu/objects`` in modelhost's cache directory by default. It is made
            when the first object is put. One that belongs to another user or that others can write to is not used,
            with a warning.
        limit: bytes that the files may take together. Beyond, those go first that were used the longest time ago.
    """

    def __init__(self, directory: Path | None = None, *, limit: int = 512 << 20) -> None:
        self.directory = cache_directory() / "modelhost-cpu" / "objects" if directory is None else directory
        self.limit = limit
        self._reported: set[str] = set()
        self._room = 0

    def get(self, key: str) -> bytes | None:
        """The object, or ``None`` when it is not there or not to be trusted.

        Raises:
            ValueError: ``key`` is none that :func:`object_key` returns.
        """
        file = self._file(key)
        if not self._trusted():
            return None
        try:
            return _read(file, key)
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            self._report_ignored(file, error)
            return None

    def put(self, key: str, object_bytes: bytes) -> None:
        """Keep the object, in the place of one with the same key, and remove old ones that are beyond the limit.

        Raises:
            ValueError: ``key`` is none that :func:`object_key` returns.
        """
        file = self._file(key)
        if _HEADER.size + len(object_bytes) > self.limit:
            return
        try:
            self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            if self._trusted():
                _write(file, key, object_bytes)
                self._room -= _HEADER.size + len(object_bytes)
                if self._room < 0:
                    self._prune()
        except OSError as error:
            self._warn(f"compiled kernels cannot be kept in {self.directory}: {error.strerror or error}")

    def _file(self, key: str) -> Path:
        if not re.fullmatch("[0-9a-f]{64}", key):
            raise ValueError(f"the key of an object is a SHA-256 in hexadecimal, got {key!r}")
        return self.directory / f"{key}{_SUFFIX}"

    def _trusted(self) -> bool:
        try:
            _check_ours(os.stat(self.directory))
        except OSError:
            return False
        except ValueError as error:
            self._warn(
                f"compiled kernels are not kept in {self.directory}: {error}. "
                "Give the directory to this user alone, or set MODELHOST_CACHE to another one"
            )
            return False
        return True

    def _prune(self) -> None:
        """Remove the files used longest ago until the rest fits, and what writers that were killed have left.

        How much this process may then put is kept, so that the directory is not read again before that is used up.
        """
        objects, now = [], time.time()
        for entry in os.scandir(self.directory):
            with suppress(OSError):  # another process may have removed it
                found = entry.stat(follow_symlinks=False)
                if entry.name.endswith(_SUFFIX):
                    objects.append((found.st_mtime_ns, found.st_size, entry.path))
                elif entry.name.endswith(_TEMPORARY) and now - found.st_mtime > _ABANDONED_AFTER:
                    os.unlink(entry.path)
        self._room = self.limit - sum(size for _, size, _ in objects)
        for _, size, path in sorted(objects):
            if self._room >= 0:
                return
            with suppress(OSError):
                os.unlink(path)
            self._room += size

    def _report_ignored(self, file: Path, error: Exception) -> None:
        if file.name not in self._reported:
            self._reported.add(file.name)
            _LOG.debug("%s is ignored and will be replaced: %s", file, error)

    def _warn(self, message: str) -> None:
        if message not in self._reported:
            self._reported.add(message)
            warnings.warn(message, RuntimeWarning, stacklevel=3)


def _read(file: Path, key: str) -> bytes:
    """The verified object in ``file``, which is marked as used now."""
    descriptor = os.open(file, _READ_FLAGS)
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise ValueError("it is not a regular file")
        _check_ours(found)
        with open(descriptor, "rb", closefd=False) as stream:
            header, payload = stream.read(_HEADER.size), stream.read()
    finally:
        os.close(descriptor)
    if header != _header(key, payload):
        raise ValueError("it is damaged, or is not an object with this key")
    with suppress(OSError):
        os.utime(file)
    return payload


def _write(file: Path, key: str, payload: bytes) -> None:
    temporary = file.with_name(f"{file.name}.{os.getpid()}.{os.urandom(4).hex()}{_TEMPORARY}")
    descriptor = os.open(temporary, _WRITE_FLAGS, 0o600)
    try:
        with open(descriptor, "wb") as stream:
            stream.write(_header(key, payload))
            stream.write(payload)
        os.replace(temporary, file)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise


def _header(key: str, payload: bytes) -> bytes:
    return _HEADER.pack(_MAGIC, _FORMAT, bytes.fromhex(key), len(payload), hashlib.sha256(payload).digest())


def _check_ours(found: os.stat_result) -> None:
    """``ValueError`` when another user can have put something there. Windows keeps its own rules for directories."""
    if not hasattr(os, "getuid"):
        return
    if found.st_uid != os.getuid():
        raise ValueError(f"it belongs to another user (uid {found.st_uid})")
    if found.st_mode & 0o022:
        raise ValueError(f"other users can write to it (mode {stat.S_IMODE(found.st_mode):04o})")
