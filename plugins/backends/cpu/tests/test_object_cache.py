"""Compiled objects on disk: what comes back is what was put, or nothing."""

from __future__ import annotations

import errno
import logging
import os
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from modelhost_cpu.machine import Target
from modelhost_cpu.object_cache import ObjectCache, object_key

TARGET = Target("x86_64-unknown-linux-gnu", "x86-64-v3", frozenset({"avx2", "fma"}))
KEY = object_key(TARGET, "one")
OTHER = object_key(TARGET, "another")
OBJECT = bytes(range(64))
HEADER = 92

posix = pytest.mark.skipif(not hasattr(os, "getuid"), reason="this system has no POSIX owners and modes")


@pytest.fixture
def cache(tmp_path: Path) -> ObjectCache:
    return ObjectCache(tmp_path / "objects")


@pytest.fixture
def file(cache: ObjectCache) -> Path:
    """The file of ``KEY``, which holds ``OBJECT``."""
    cache.put(KEY, OBJECT)
    (file,) = cache.directory.iterdir()
    return file


def test_a_key_is_a_sha256_of_everything_given() -> None:
    targets = [
        TARGET,
        TARGET.without("fma"),
        Target("x86_64-apple-darwin", TARGET.cpu, TARGET.features),
        Target(TARGET.triple, "x86-64", TARGET.features),
    ]
    parts = [(), ("ab",), ("a", "b"), ("b", "a"), ("ab", ""), ("", "ab"), (b"ac",)]
    keys = {object_key(target, *given) for target in targets for given in parts}
    assert len(keys) == len(targets) * len(parts)
    assert {len(key) for key in keys} == {64}
    assert object_key(TARGET, "one", b"two") == object_key(TARGET, b"one", "two")


@pytest.mark.parametrize(("name", "value"), [("__version__", "0.0.1"), ("binding.llvm_version_info", (1, 2, 3))])
def test_a_key_is_for_one_version(monkeypatch: pytest.MonkeyPatch, name: str, value: object) -> None:
    monkeypatch.setattr(f"llvmlite.{name}", value)
    assert object_key(TARGET, "one") != KEY


def test_a_key_does_not_depend_on_the_process() -> None:
    code = (
        "from modelhost_cpu.machine import Target; from modelhost_cpu.object_cache import object_key; "
        f"print(object_key(Target({TARGET.triple!r}, {TARGET.cpu!r}, frozenset(['fma', 'avx2'])), 'one'))"
    )
    environment = {**os.environ, "PYTHONHASHSEED": "7"}
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
    assert result.stdout.strip() == KEY


@pytest.mark.parametrize("key", ["", "../../etc/passwd", KEY.upper(), KEY[:-1], KEY + "\n"])
def test_other_keys_are_refused(cache: ObjectCache, key: str) -> None:
    with pytest.raises(ValueError, match="the key of an object is a SHA-256 in hexadecimal"):
        cache.get(key)
    with pytest.raises(ValueError, match="the key of an object is a SHA-256 in hexadecimal"):
        cache.put(key, OBJECT)


@pytest.mark.parametrize("content", [b"", b"\n", OBJECT, bytes(1 << 20)], ids=len)
def test_what_was_put_comes_back(cache: ObjectCache, content: bytes) -> None:
    assert cache.get(KEY) is None
    cache.put(KEY, content)
    cache.put(OTHER, b"else")
    assert ObjectCache(cache.directory).get(KEY) == content
    assert [found.suffix for found in cache.directory.iterdir()] == [".object"] * 2


def test_the_last_put_counts(cache: ObjectCache) -> None:
    cache.put(KEY, b"old")
    cache.put(KEY, b"new")
    assert cache.get(KEY) == b"new"
    assert len(list(cache.directory.iterdir())) == 1


def test_the_default_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("MODELHOST_CACHE", str(tmp_path))
    assert ObjectCache().directory == tmp_path / "modelhost-cpu" / "objects"


def test_looking_for_an_object_makes_no_directory(cache: ObjectCache) -> None:
    assert cache.get(KEY) is None
    assert not cache.directory.exists()


def test_no_byte_can_change(cache: ObjectCache, file: Path) -> None:
    whole = file.read_bytes()
    assert len(whole) == HEADER + len(OBJECT)
    for at in range(len(whole)):
        file.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        assert cache.get(KEY) is None, at
    file.write_bytes(whole)
    assert cache.get(KEY) == OBJECT


def test_no_byte_can_be_missing_or_more(cache: ObjectCache, file: Path) -> None:
    whole = file.read_bytes()
    for length in range(len(whole)):
        file.write_bytes(whole[:length])
        assert cache.get(KEY) is None, length
    file.write_bytes(whole + b"\0")
    assert cache.get(KEY) is None


def test_the_object_of_another_key_is_not_taken(cache: ObjectCache, file: Path) -> None:
    file.rename(file.with_name(file.name.replace(KEY, OTHER)))
    assert cache.get(OTHER) is None


def test_damage_is_reported_once_and_repaired(
    cache: ObjectCache, file: Path, caplog: pytest.LogCaptureFixture, recwarn: pytest.WarningsRecorder
) -> None:
    file.write_bytes(b"\x7fELF" + bytes(200))
    with caplog.at_level(logging.DEBUG, "modelhost_cpu.object_cache"):
        assert cache.get(KEY) is None and cache.get(KEY) is None
    assert caplog.messages == [
        f"{file} is ignored and will be replaced: it is damaged, or is not an object with this key"
    ]
    cache.put(KEY, OBJECT)
    assert cache.get(KEY) == OBJECT
    assert len(recwarn) == 0


@posix
def test_only_the_user_can_read_and_write_the_files(cache: ObjectCache, file: Path) -> None:
    assert stat.S_IMODE(cache.directory.stat().st_mode) == 0o700
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def _link(file: Path) -> None:
    file.rename(file.with_name("elsewhere"))
    file.symlink_to("elsewhere")


def _pipe(file: Path) -> None:
    file.unlink()
    os.mkfifo(file)


def _folder(file: Path) -> None:
    file.unlink()
    file.mkdir()


@posix
@pytest.mark.parametrize("change", [lambda file: file.chmod(0o620), lambda file: file.chmod(0o602), _link, _pipe])
def test_files_that_others_may_have_written_are_replaced(
    cache: ObjectCache, file: Path, change: Callable[[Path], None]
) -> None:
    change(file)
    assert cache.get(KEY) is None
    cache.put(KEY, OBJECT)
    assert cache.get(KEY) == OBJECT


@posix
def test_a_folder_in_the_place_of_a_file_is_left_alone(cache: ObjectCache, file: Path) -> None:
    _folder(file)
    assert cache.get(KEY) is None
    with pytest.warns(RuntimeWarning, match="cannot be kept in"):
        cache.put(KEY, OBJECT)
    assert [found.name for found in cache.directory.iterdir()] == [file.name]


def _foreign(function: Callable[..., os.stat_result]) -> Callable[..., os.stat_result]:
    def foreign(*arguments: object, **options: object) -> os.stat_result:
        found = list(function(*arguments, **options))
        found[stat.ST_UID] = os.getuid() + 1
        return os.stat_result(found)

    return foreign


@posix
def test_a_file_of_another_user_is_not_taken(cache: ObjectCache, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert cache.get(KEY) == OBJECT
    with monkeypatch.context() as patch:
        patch.setattr(os, "fstat", _foreign(os.fstat))
        assert cache.get(KEY) is None
    assert cache.get(KEY) == OBJECT


@posix
def test_a_directory_of_another_user_is_not_used(
    cache: ObjectCache, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    message = f"compiled kernels are not kept in .*: it belongs to another user .uid {os.getuid() + 1}.. Give the"
    with monkeypatch.context() as patch:
        patch.setattr(os, "stat", _foreign(os.stat))
        with pytest.warns(RuntimeWarning, match=message) as caught:
            assert cache.get(KEY) is None
            cache.put(OTHER, OBJECT)
    assert len(caught) == 1
    assert list(cache.directory.iterdir()) == [file]


@posix
@pytest.mark.parametrize("mode", [0o777, 0o770, 0o1777])
def test_a_directory_that_others_can_write_to_is_not_used(cache: ObjectCache, file: Path, mode: int) -> None:
    cache.directory.chmod(mode)
    with pytest.warns(RuntimeWarning, match=f"other users can write to it .mode {mode:04o}.* set MODELHOST_CACHE"):
        cache.put(OTHER, OBJECT)
    assert cache.get(KEY) is None
    assert list(cache.directory.iterdir()) == [file]


def test_a_directory_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    cache = ObjectCache(tmp_path / "file" / "objects")
    with pytest.warns(RuntimeWarning, match=r"compiled kernels cannot be kept in .*objects: ") as caught:
        cache.put(KEY, OBJECT)
        cache.put(KEY, OBJECT)
    assert len(caught) == 1
    assert cache.get(KEY) is None


def test_a_full_disk_leaves_nothing_behind(cache: ObjectCache, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(source: object, target: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch, pytest.warns(RuntimeWarning, match="objects: No space left on device"):
        patch.setattr(os, "replace", full)
        cache.put(KEY, b"new")
        cache.put(OTHER, b"new")
    assert list(cache.directory.iterdir()) == [file]
    assert cache.get(KEY) == OBJECT


_LIMITED = """
import resource, sys, warnings
from pathlib import Path
from modelhost_cpu.object_cache import ObjectCache
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
warnings.simplefilter("always")
cache = ObjectCache(Path(sys.argv[1]))
cache.put("0" * 64, bytes(1 << 20))
cache.put("1" * 64, bytes(1 << 10))
print(cache.get("0" * 64), cache.get("1" * 64) == bytes(1 << 10), len(list(cache.directory.iterdir())))
"""


@posix
def test_a_write_that_ends_half_way(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _LIMITED, str(tmp_path / "objects")]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    assert result.stdout.split() == ["None", "True", "1"]
    assert "File too large" in result.stderr


_WORK = """
import sys
from pathlib import Path
from modelhost_cpu.object_cache import ObjectCache
keys = [digit * 64 for digit in "0123"]
mine, valid = sys.argv[2].encode(), {}
for key in keys:
    valid[key] = {name * (1000 + 70000 * int(key[0])) for name in (b"a", b"b")}
cache, hits = ObjectCache(Path(sys.argv[1]), limit=400_000), 0
for turn in range(300):
    key = keys[turn % 4]
    if turn % 8 < 4:
        cache.put(key, mine * (1000 + 70000 * int(key[0])))
    found = cache.get(key)
    assert found is None or found in valid[key], (turn, key, len(found))
    hits += found is not None
print(hits)
"""


def test_two_processes_with_one_cache(tmp_path: Path) -> None:
    """The limit is below the size of all objects, so they also remove each other's."""
    command = [sys.executable, "-W", "error", "-c", _WORK, str(tmp_path / "objects")]
    workers = [
        subprocess.Popen([*command, name], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for name in "ab"
    ]
    results = [(*worker.communicate(timeout=60), worker.returncode) for worker in workers]
    assert [(errors, status) for _, errors, status in results] == [("", 0)] * 2
    assert all(int(hits) > 0 for hits, _, _ in results)
    assert {found.suffix for found in (tmp_path / "objects").iterdir()} == {".object"}


def _age(cache: ObjectCache, key: str, seconds: float) -> None:
    (file,) = cache.directory.glob(f"{key}*")
    os.utime(file, (time.time() - seconds,) * 2)


def test_the_objects_used_longest_ago_are_removed(tmp_path: Path) -> None:
    size = HEADER + len(OBJECT)
    cache = ObjectCache(tmp_path / "objects", limit=3 * size)
    keys = [object_key(TARGET, str(number)) for number in range(5)]
    for number, key in enumerate(keys[:3]):
        cache.put(key, OBJECT)
        _age(cache, key, 100 - number)
    assert cache.get(keys[0]) == OBJECT  # used now
    cache.put(keys[3], OBJECT)
    assert [cache.get(key) is not None for key in keys] == [True, False, True, True, False]
    cache.put(keys[4], bytes(2 * size))
    assert [cache.get(key) is not None for key in keys] == [False, False, False, False, True]


def test_an_object_beyond_the_limit_is_not_kept(tmp_path: Path) -> None:
    cache = ObjectCache(tmp_path / "objects", limit=HEADER + len(OBJECT))
    cache.put(KEY, OBJECT)
    cache.put(OTHER, OBJECT + b"\0")
    assert (cache.get(KEY), cache.get(OTHER)) == (OBJECT, None)


def test_what_killed_writers_left_is_removed(cache: ObjectCache, file: Path) -> None:
    old, new, foreign = (cache.directory / name for name in ("1.temporary", "2.temporary", "notes.txt"))
    for path in (old, new, foreign):
        path.touch()
    for path in (old, foreign):
        os.utime(path, (time.time() - 7200,) * 2)
    ObjectCache(cache.directory).put(KEY, OBJECT)
    assert set(cache.directory.iterdir()) == {file, new, foreign}
