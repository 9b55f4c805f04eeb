"""What this package declares."""

from __future__ import annotations

from collections.abc import Iterator

from modelhost.api import Backend, hookimpl

API = (1, 0)


@hookimpl
def modelhost_backends() -> Iterator[Backend]:
    yield Backend(
        "torch",
        target="modelhost_torch.backend:TorchBackend",
        devices=("cpu", "cuda", "mps", "xpu"),
        dtypes=("float32", "bfloat16", "float16"),
        priority=10,
        probe="modelhost_torch.probe:probe",
        settings="modelhost_torch.settings:TorchSettings",
    )
