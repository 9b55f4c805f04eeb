"""What this package declares."""

from __future__ import annotations

from collections.abc import Iterator

from modelhost.api import Backend, hookimpl

API = (1, 0)


@hookimpl
def modelhost_backends() -> Iterator[Backend]:
    yield Backend(
        "cpu",
        target="modelhost_cpu.backend:CpuBackend",
        devices=("cpu",),
        dtypes=("bfloat16", "float32"),
        priority=20,
        probe="modelhost_cpu.probe:probe",
        settings="modelhost_cpu.settings:CpuSettings",
    )
