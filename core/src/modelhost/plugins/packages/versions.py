"""The order of versions (PEP 440), as far as telling an upgrade from a downgrade takes."""

from __future__ import annotations

import re

_VERSION = re.compile(r"(?:(\d+)!)?(\d+(?:\.\d+)*)[._-]?(?:(a|b|c|rc|alpha|beta|pre|preview)[._-]?(\d*))?(.*)")
_STAGES = {"a": 0, "alpha": 0, "b": 1, "beta": 1, "c": 2, "rc": 2, "pre": 2, "preview": 2}
_FINAL = 3

Key = tuple[int, tuple[int, ...], int, int, int, int]


def version_key(version: str) -> Key:
    """Sorts as the versions do. A local part (``+cpu``) does not count."""
    match = _VERSION.match(version.lower().removeprefix("v").partition("+")[0])
    if not match:
        return 0, (), 0, 0, 0, 0
    epoch, release, stage, number, rest = match.groups()
    numbers = [int(part) for part in release.split(".")]
    while numbers and not numbers[-1]:
        numbers.pop()
    post = re.search(r"(?:post|rev|r|-)[._-]?(\d*)", rest)
    development = re.search(r"dev[._-]?(\d*)", rest)
    rank = _STAGES[stage] if stage else (-1 if development and not post else _FINAL)
    return (
        int(epoch or 0),
        tuple(numbers),
        rank,
        int(number or 0),
        int(post[1] or 0) + 1 if post else 0,
        -1_000_000 + int(development[1] or 0) if development else 0,
    )
