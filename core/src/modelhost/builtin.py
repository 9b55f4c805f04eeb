"""What modelhost declares itself, through the same entry points as any plugin."""

from __future__ import annotations

from collections.abc import Iterable

from modelhost.api import API as API
from modelhost.api import Backend, Encoding, hookimpl


@hookimpl
def modelhost_backends() -> Iterable[Backend]:
    yield Backend(
        "reference",
        target="modelhost.reference:ReferenceBackend",
        devices=("cpu",),
        dtypes=("float32",),
        fallback=True,
        settings="modelhost.reference.settings:ReferenceSettings",
    )


@hookimpl
def modelhost_encodings() -> Iterable[Encoding]:
    from modelhost.weights.encodings import ENCODINGS

    return ENCODINGS
