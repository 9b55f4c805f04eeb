"""What this package declares."""

from __future__ import annotations

from collections.abc import Iterator

from modelhost.api import Backend, hookimpl

API = (1, 0)


@hookimpl
def modelhost_backends() -> Iterator[Backend]:
    yield Backend(
        "gemm", target="modelhost_gemm.backend:GemmBackend", devices=("cpu",), dtypes=("float32",), priority=1
    )
