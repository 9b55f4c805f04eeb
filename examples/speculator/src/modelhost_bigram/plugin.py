"""What this package declares."""

from __future__ import annotations

from collections.abc import Iterator

from modelhost.api import Speculator, hookimpl

API = (1, 0)


@hookimpl
def modelhost_speculators() -> Iterator[Speculator]:
    yield Speculator("bigram", target="modelhost_bigram.bigram:Bigram")
